"""The programs that are started: the Pulumi CLI, its Kubernetes plugin, the AWS command."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from efactl.doctor.finding import Finding, fail, ok, warn
from efactl.doctor.subject import Subject, answer

# As tools/setup/pins.py has it.
PULUMI_OLDEST = (3, 200, 0)
# Below, pulumi-eks refuses it: its kubeconfig asks `aws eks get-token` for v1beta1 credentials.
AWS_OLDEST = (2, 7, 0)
_SET_UP = "make setup"

Version = tuple[int, int, int]


def pulumi_command() -> str | None:
    """The `pulumi` that efactl runs: set-up's, beside this interpreter, else the one on PATH."""
    beside = Path(sys.executable).with_name("pulumi")
    return str(beside) if beside.exists() else shutil.which("pulumi")


def pulumi(_subject: Subject) -> Iterator[Finding]:
    command = pulumi_command()
    if command is None:
        yield fail("pulumi", f"no Pulumi CLI on PATH or beside {sys.executable}", _SET_UP)
        yield go()
        return
    told = answer([command, "version"])
    version = parsed(told.output) if told.status == 0 else None
    if version is None:
        yield fail("pulumi", f"{command} does not answer `pulumi version`: {told.last_line}", _SET_UP)
    elif version < PULUMI_OLDEST:
        yield fail("pulumi", f"{command} is {shown(version)}, older than {shown(PULUMI_OLDEST)}", _SET_UP)
    else:
        yield ok("pulumi", f"{shown(version)} ({command})")


def go() -> Finding:
    """Asked for only where there is no Pulumi CLI, which may then have to be built."""
    found = shutil.which("go")
    if found:
        return ok("go", f"{found}, should the CLI have to be built")
    return warn(
        "go", "not on PATH: without it the CLI can only be downloaded", "install Go, or let set-up download the CLI"
    )


def kubernetes_plugin(subject: Subject) -> Iterator[Finding]:
    if subject.platform == "local":
        return
    name = "pulumi-resource-kubernetes"
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    beside = Path(sys.executable).with_name(name)
    installed = sorted((home / "plugins").glob(f"resource-kubernetes-v*/{name}"))
    if beside.exists() or installed:
        yield ok("plugin", f"Kubernetes provider ({beside if beside.exists() else installed[-1]})")
        return
    yield warn(
        "plugin", "Pulumi's Kubernetes provider is not installed yet", f"make up STACK={subject.stack} brings it"
    )


def aws(subject: Subject) -> Iterator[Finding]:
    if subject.platform != "eks":
        return
    command = shutil.which("aws")
    install = "install AWS CLI 2: its kubeconfig asks it for every token"
    if command is None:
        yield fail("aws", "no `aws` command on PATH", install)
        return
    told = answer([command, "--version"])
    version = parsed(told.output) if told.status == 0 else None
    if version is None:
        yield fail("aws", f"{command} does not answer `aws --version`: {told.last_line}", install)
    elif version < AWS_OLDEST:
        yield fail("aws", f"{command} is {shown(version)}, older than {shown(AWS_OLDEST)}, which EKS needs", install)
    else:
        yield ok("aws", f"{shown(version)} ({command})")


def parsed(text: str) -> Version | None:
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def shown(version: Version) -> str:
    return ".".join(map(str, version))
