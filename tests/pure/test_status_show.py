"""How a status is shown: once or again and again, its exit codes, and questions that have no answer."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from efactl import __main__ as efactl
from efactl.exit_codes import ExitCode
from efactl.stack import Stack
from efactl.stack_secrets import configured_secrets
from efactl.status import gather, show
from efactl.status.asking import Asked, UnreachableError
from tests.support.known_stack import KnownStack, local_cluster
from workload.errors import ReportedError

T = TypeVar("T")


class Unreadable(KnownStack):
    def resources(self) -> list[Any]:
        raise ReportedError("pulumi stack export -s local: incorrect passphrase")


def test_a_state_that_cannot_be_read_fails_with_its_reason_in_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert show.show(Unreadable([]), as_json=True, watch=False) == ExitCode.FAILED
    told = json.loads(capsys.readouterr().out)
    assert told["stack"]["name"] == "local"
    for part in gather.PARTS:
        assert "incorrect passphrase" in told[part]["unreachable"]


def test_unreachable_parts_are_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = KnownStack([local_cluster(directory=str(tmp_path))])
    assert show.show(stack, as_json=False, watch=False) == ExitCode.OK
    assert "\x1b" not in capsys.readouterr().out


def test_a_watch_looks_again_until_it_is_interrupted_and_appends_where_it_is_piped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    assert show.show(KnownStack([]), as_json=False, watch=True) == ExitCode.OK
    shown = capsys.readouterr().out
    assert shown.count("stack       local:") == 2
    assert "\x1b" not in shown
    slept.clear()
    assert show.show(KnownStack([]), as_json=True, watch=True) == ExitCode.OK
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["stack"]["name"] for one in documents] == ["local", "local"]


def test_an_unknown_stack_is_a_bad_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert efactl.main(["status", "-s", "nowhere"]) == ExitCode.BAD_INPUT
    assert "nowhere" in capsys.readouterr().err


def test_a_question_that_hangs_is_given_up_at_its_limit_and_one_that_fails_says_why() -> None:
    release = threading.Event()
    hanging = Asked(release.wait, limit_s=0.2)
    with pytest.raises(UnreachableError, match=r"no answer within 0\.2 s"):
        hanging.answer()
    release.set()

    def fails() -> None:
        raise ReportedError("refused")

    with pytest.raises(UnreachableError, match=r"^refused$"):
        Asked(fails, limit_s=60).answer()
    assert Asked(lambda: 3, limit_s=60).answer() == 3


def test_settings_that_hold_secrets_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stack = KnownStack([])
    assert configured_secrets(stack) == [], "a file without secrets costs no call"
    stack.file = tmp_path / "Pulumi.it.yaml"
    stack.file.write_text("config:\n  ray-train-efa:jobSecretEnv:\n    HF_TOKEN:\n      secure: v1:abc\n")
    answer = {
        "ray-train-efa:jobSecretEnv": {"value": "{}", "objectValue": {"HF_TOKEN": "hf_it"}, "secret": True},
        "ray-train-efa:expect": {"value": "gloo", "secret": False},
    }
    asked: list[Any] = []

    def answered(_stack: Stack, command: Any) -> str:
        asked.append(command)
        return json.dumps(answer)

    monkeypatch.setattr(Stack, "answer", answered)
    assert configured_secrets(stack) == ["hf_it"]
    assert asked == [["config", "--show-secrets", "--json"]]


class Slow(KnownStack):
    """Whose pulumi waits for a backend that never answers. Nobody is impatient before it runs."""

    def __init__(self, resources: list[Any]) -> None:
        super().__init__(resources)
        self.started: list[subprocess.Popen[bytes]] = []
        self._runs = threading.Event()

    def resources(self) -> list[Any]:
        self.started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        self._runs.set()
        self.started[0].wait()
        return []

    def asked(self, question: Callable[[], T], *, limit_s: float) -> Asked[T]:
        asked = Asked(question, limit_s=limit_s)
        assert self._runs.wait(60)
        return asked


def test_a_pulumi_that_hangs_is_given_up_and_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gather, "STATE_S", 1.0)
    stack = Slow([])
    monkeypatch.setattr(gather, "Asked", stack.asked)
    assert show.show(stack, as_json=True, watch=False) == ExitCode.FAILED
    assert "no answer within 1 s" in json.loads(capsys.readouterr().out)["cost"]["unreachable"]
    (started,) = stack.started
    assert started.wait(30) != 0, "it does not go on behind the command's back"
