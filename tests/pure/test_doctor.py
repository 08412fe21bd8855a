"""`efactl doctor`: what it finds on a machine and in a stack, with the fix beside it, and what it never does."""

import argparse
import importlib.metadata
import json
import shutil
import socket
import sys
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from efactl.doctor import aws, command, machine, stack, tools
from efactl.doctor.aws import Right, right_of
from efactl.doctor.finding import Finding, as_document, fail, lines_of, ok, passed, warn
from efactl.doctor.subject import Answer, Subject, answer
from efactl.exit_codes import ExitCode

ROOT = Path(__file__).parents[2]
PULUMI = """case "$*" in
  version) echo v3.274.1 ;;
  "whoami --verbose --json") echo '{"user": "ada", "url": "https://state.example"}' ;;
  "stack ls --json") echo '[{"name": "ada/ray-train-efa/dev"}]' ;;
  *) echo "error: $*" >&2; exit 1 ;;
esac"""
AWS = """case "$*" in
  --version) echo aws-cli/2.31.0 Python/3.13.7 ;;
  "sts get-caller-identity "*) echo '{"Arn": "arn:aws:iam::123456789012:user/ada", "Account": "123456789012"}' ;;
  *--dry-run*) echo "An error occurred (DryRunOperation) when calling: Request would have succeeded" >&2; exit 254 ;;
  "iam get-role "*) echo "An error occurred (NoSuchEntity) when calling the GetRole operation" >&2; exit 254 ;;
  *) echo '{}' ;;
esac"""


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """What asks AWS without the `aws` command finds neither credentials nor AWS."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("Pulumi.yaml", "Pulumi.local.yaml", "Pulumi.dev.yaml", "requirements.lock"):
        shutil.copyfile(ROOT / name, project / name)
    dev = project / "Pulumi.dev.yaml"
    dev.write_text(dev.read_text().replace("203.0.113.7/32", "9.9.9.9/32"))
    (project / "training").symlink_to(ROOT / "training")
    (project / ".git").mkdir()
    return project


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of its own with a pulumi and an aws that answer as they should."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    put(binaries, "pulumi", PULUMI)
    put(binaries, "aws", AWS)
    put(binaries, "git", "exit 0")
    monkeypatch.setenv("PATH", str(binaries))
    for module in (tools, stack):
        monkeypatch.setattr(module, "found_pulumi", lambda: str(binaries / "pulumi"))
    for variable in ("PULUMI_BACKEND_URL", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    return binaries


def put(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def change(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / f"Pulumi.{name}.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def bad(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings if finding.level != "ok"}


@pytest.mark.parametrize("name", ["local", "dev"])
def test_where_all_is_well_nothing_fails(folder: Path, programs: Path, name: str) -> None:
    findings = command.examined(name, folder)
    assert [finding for finding in findings if finding.level == "fail"] == []
    names = {finding.name for finding in findings}
    assert {"python", "packages", "disk", "pulumi", "state", "stack file", "settings"} <= names
    assert ({"credentials", "permissions", "aws"} <= names) == (name == "dev")


def test_every_problem_has_its_fix(folder: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(folder, "dev", 'trainSteps: "20"', 'trainSteps: "none"')
    change(folder, "dev", "gpuZone: us-west-2b", "gpuZne: us-west-2b")
    put(programs, "pulumi", "echo v3.10.0")
    put(programs, "aws", "echo aws-cli/1.45.11 Python/3.11")
    (programs / "git").unlink()
    monkeypatch.setattr(machine, "PYTHON_NEWEST", (3, 10))
    monkeypatch.setattr(importlib.metadata, "version", lambda _name: "0.0.1")
    findings = command.examined("dev", folder)
    found = bad(findings)
    assert {"python", "packages", "pulumi", "aws", "state", "credentials", "git", "settings"} <= set(found)
    assert all(finding.fix for finding in findings if finding.level == "fail")
    assert "3.10.0" in found["pulumi"].what and "older than 3.200.0" in found["pulumi"].what
    assert "1.45.11" in found["aws"].what
    said = "\n".join(finding.what for finding in findings if finding.name == "settings")
    assert "trainSteps: 'none' is not a whole number" in said
    assert "gpuZne: 'us-west-2b' is not a setting: did you mean gpuZone?" in said


def test_a_missing_plugin_is_brought_by_what_brings_up_nothing(
    folder: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_HOME", str(folder / "nowhere"))
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    (found,) = tools.kubernetes_plugin(stack.subject_of(folder, "dev")[0])
    assert (found.level, found.fix) == ("warn", "sh tools/bootstrap.sh --stack dev")


def test_settings_are_judged_with_their_secrets_unread(folder: Path, programs: Path) -> None:
    secret = "config:\n  ray-train-efa:jobSecretEnv:\n    HF_TOKEN: {secure: 'v1:abc'}"
    change(folder, "local", "config:", secret)
    assert "settings" not in bad(command.examined("local", folder))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("config: [", "cannot be read"),
        ("- a\n- b\n", "is not `config:` with settings below"),
        ("\xff", None),
    ],
)
def test_a_stack_s_file_that_cannot_be_read_is_said(folder: Path, programs: Path, text: str, said: str | None) -> None:
    (folder / "Pulumi.local.yaml").write_text(text, encoding="latin-1")
    finding = bad(command.examined("local", folder))["stack file"]
    assert (said or "cannot be read") in finding.what and finding.level == "fail"


def test_a_path_that_a_shell_takes_apart_is_said(tmp_path: Path) -> None:
    (found,) = machine.place(Subject(folder=tmp_path / "my project", stack="local"))
    assert found.level == "fail" and "my project" in found.what


def test_little_disk_is_a_warning_and_none_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    for free, level in ((10 * 1024**3, "ok"), (1024**3, "warn"), (1024**2, "fail")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _path, free=free: usage(0, 0, free))
        assert {finding.level for finding in machine.room(Subject(folder=tmp_path, stack="local"))} == {level}


def test_pins_that_are_for_another_python_or_system_are_not_looked_for() -> None:
    lock = (
        "numpy==2.4.6 ; python_full_version < '3.0' \\\n    --hash=sha256:0\n"
        "numpy==2.5.5 ; python_full_version >= '3.0' \\\n    --hash=sha256:1\n"
        "pywin32==312 ; sys_platform == 'no-such-system' \\\n    --hash=sha256:2\n"
        "ray==2.58.0 \\\n    --hash=sha256:3\n"
    )
    assert machine.pins(lock) == {"numpy": "2.5.5", "ray": "2.58.0"}


def test_a_backend_that_does_not_answer_is_said_with_its_own_words(folder: Path, programs: Path) -> None:
    put(programs, "pulumi", 'case "$*" in version) echo v3.274.1;; *) echo "error: no route to it" >&2; exit 1;; esac')
    finding = bad(command.examined("dev", folder))["state"]
    assert finding.level == "fail" and "no route to it" in finding.what and "pulumi login" in finding.fix


def test_a_stack_that_the_backend_does_not_hold_yet_is_a_warning(folder: Path, programs: Path) -> None:
    put(programs, "pulumi", PULUMI.replace("ray-train-efa/dev", "ray-train-efa/other"))
    finding = bad(command.examined("dev", folder))["state"]
    assert (finding.level, finding.fix) == ("warn", "pulumi stack init dev")


@pytest.mark.parametrize(
    ("status", "error", "right"),
    [
        (0, "", "granted"),
        (254, "An error occurred (DryRunOperation) when calling the CreateVpc operation", "granted"),
        (254, "An error occurred (NoSuchEntity) when calling the GetRole operation", "granted"),
        (254, "An error occurred (UnauthorizedOperation) when calling the CreateVpc operation", "denied"),
        (254, "An error occurred (AccessDeniedException) when calling the ListClusters operation", "denied"),
        (254, "An error occurred (AccessDenied): User: u is not authorized to perform: iam:GetRole", "denied"),
        (255, "Could not connect to the endpoint URL", "unknown"),
        (None, "no answer within 30 s", "unknown"),
    ],
)
def test_what_an_answer_of_aws_says_about_a_right(status: int | None, error: str, right: Right) -> None:
    assert right_of(Answer(status=status, error=error)) == right


def test_rights_that_are_missing_are_named_and_those_that_cannot_be_asked_warn(folder: Path, programs: Path) -> None:
    denied = """  "eks list-clusters "*) echo "An error occurred (AccessDeniedException) when calling" >&2; exit 254 ;;
  "kms list-aliases "*) echo "Could not connect to the endpoint URL" >&2; exit 255 ;;
  --version)"""
    put(programs, "aws", AWS.replace("  --version)", denied))
    findings = [one for one in command.examined("dev", folder) if one.name == "permissions"]
    by_level = {finding.level: finding for finding in findings}
    assert by_level["fail"].what == "not allowed: eks:ListClusters"
    assert "docs/iam/deployer.json" in by_level["fail"].fix
    assert "kms:ListAliases could not be asked: Could not connect" in by_level["warn"].what
    assert "are allowed" in by_level["ok"].what


def test_nothing_that_is_asked_of_aws_can_make_or_change_anything(folder: Path) -> None:
    subject, _ = stack.subject_of(folder, "dev")
    asked = aws.questions(subject)
    assert len(asked) > 5
    for question in asked:
        verb = question.words[1].split("-")[0]
        assert verb in ("describe", "list", "get") or "--dry-run" in question.words, question
    policy = json.loads((ROOT / "docs" / "iam" / "deployer.json").read_text())
    allowed = {
        action
        for statement in policy["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }
    for question in asked:
        service, _, name = question.action.partition(":")
        assert any(
            pattern == question.action or (pattern.endswith("*") and f"{service}:{name}".startswith(pattern[:-1]))
            for pattern in allowed
        ), f"{question.action} is not in the policy that doctor points at"


def test_another_account_than_the_stack_allows_fails_and_asks_no_further(folder: Path, programs: Path) -> None:
    change(folder, "dev", "config:", 'config:\n  aws:allowedAccountIds: ["999999999999"]')
    findings = command.examined("dev", folder)
    assert "aws:allowedAccountIds has 999999999999" in bad(findings)["credentials"].what
    assert not [finding for finding in findings if finding.name == "permissions"]


def test_a_cluster_that_does_not_answer_is_said_with_its_address(folder: Path, programs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        server = f"http://127.0.0.1:{closed.getsockname()[1]}"
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    text = (ROOT / "Pulumi.kubernetes.yaml").read_text()
    text = text.replace("config:", f"config:\n  ray-train-efa:kubeconfig: {kubeconfig}")
    (folder / "Pulumi.dev.yaml").write_text(text)
    finding = bad(command.examined("dev", folder))["cluster"]
    assert finding.level == "fail" and server in finding.what and "kubectl cluster-info" in finding.fix


def test_a_look_that_goes_wrong_hides_nothing(folder: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_subject: Subject) -> Iterator[Finding]:
        yield ok("first", "seen")
        raise RuntimeError("out of luck")

    monkeypatch.setattr(command, "CHECKS", (broken, machine.python))
    findings = command.examined("local", folder)
    assert ok("first", "seen") in findings
    assert bad(findings)["broken"].what == "could not be looked at: RuntimeError: out of luck"
    assert "python" in {finding.name for finding in findings}


def test_a_program_that_hangs_is_given_up() -> None:
    told = answer([sys.executable, "-c", "import time; time.sleep(60)"], seconds=0.5)
    assert told.status is None and "no answer within" in told.last_line


LIST = [ok("python", "3.11"), warn("git", "not on PATH", "install git"), fail("aws", "too old", "install it\n")]


def test_the_list_says_level_name_and_fix() -> None:
    lines = list(lines_of(LIST, colour=False))
    assert lines[0] == "ok    python  3.11"
    assert lines[1:3] == ["warn  git     not on PATH", "              -> install git"]
    assert lines[-1] == "1 ok, 1 warn, 1 fail"
    assert "\x1b" not in "".join(lines)
    assert "\x1b[31mfail\x1b[0m" in "".join(lines_of(LIST, colour=True))


@pytest.mark.parametrize(("findings", "code"), [(LIST[:2], ExitCode.OK), (LIST, ExitCode.FAILED)])
def test_it_fails_where_anything_fails_and_json_is_one_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], findings: list[Finding], code: ExitCode
) -> None:
    monkeypatch.setattr(command, "examined", lambda _name: findings)
    assert command.doctor(argparse.Namespace(stack="local", json=True)) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document == as_document(findings, "local")
    assert document["passed"] is passed(findings)
    assert command.doctor(argparse.Namespace(stack="local", json=False)) == code
    assert "\x1b" not in capsys.readouterr().out
