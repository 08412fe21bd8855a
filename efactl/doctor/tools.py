"""The programs that are started: the Pulumi CLI, its Kubernetes plugin, the AWS command."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from capacity.pulumi_cli import found_pulumi
from efactl.doctor.finding import Finding, fail, ok, warn
from efactl.doctor.subject import Subject, answer

# As tools/setup/pins.py has it.
PULUMI_OLDEST = (3, 200, 0)
# Below, pulumi-eks refuses it: its kubeconfig asks `aws eks get-token` for v1beta1 credentials.
AWS_OLDEST = (2, 7, 0)
_SET_UP = "make setup"

Version = tuple[int, int, int]


def pulumi(_subject: Subject) -> Iterator[Finding]:
    command = found_pulumi()
    if command is None:
        yield fail("pulumi", f"no Pulumi CLI on PATH or beside {sys.executable}", _SET_UP)
        yield go()
        return
    yield _new_enough("pulumi", command, "version", PULUMI_OLDEST, fix=_SET_UP)


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
    # `make up` brings it too, and then the stack, which may bill.
    brings = f"sh tools/bootstrap.sh --stack {subject.stack}"
    yield warn("plugin", "Pulumi's Kubernetes provider is not installed yet", brings)


def aws(subject: Subject) -> Iterator[Finding]:
    if subject.platform != "eks":
        return
    command = shutil.which("aws")
    install = "install AWS CLI 2: its kubeconfig asks it for every token"
    if command is None:
        yield fail("aws", "no `aws` command on PATH", install)
        return
    yield _new_enough("aws", command, "--version", AWS_OLDEST, fix=install, because=", which EKS needs")


def _new_enough(name: str, command: str, asks: str, oldest: Version, *, fix: str, because: str = "") -> Finding:
    told = answer([command, asks])
    version = parsed(told.output) if told.status == 0 else None
    if version is None:
        return fail(name, f"{command} does not answer `{name} {asks}`: {told.last_line}", fix)
    if version < oldest:
        return fail(name, f"{command} is {shown(version)}, older than {shown(oldest)}{because}", fix)
    return ok(name, f"{shown(version)} ({command})")


def parsed(text: str) -> Version | None:
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def shown(version: Version) -> str:
    return ".".join(map(str, version))
