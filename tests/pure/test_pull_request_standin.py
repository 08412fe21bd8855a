"""When a pull request's preview is a stand-in's instead of the stack's own, and that its reader is told."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.pure.test_pull_request_preview import preview
from tests.support import engine_events as made
from tools.pull_request import previews
from tools.pull_request.__main__ import main
from tools.pull_request.events import Preview

PULUMI = """#!/bin/sh
echo "error: no stack named 'dev' found" >&2
exit 255
"""


def source(folder: Path) -> previews.Source:
    return previews.Source(project=folder, scratch=folder / "scratch", policies=False)


def fake_pulumi(folder: Path, script: str) -> None:
    command = folder / ".venv/bin/pulumi"
    command.parent.mkdir(parents=True)
    command.write_text(script)
    command.chmod(0o755)


def test_a_stack_that_the_backend_lacks_is_told_from_one_that_fails(tmp_path: Path) -> None:
    fake_pulumi(tmp_path / "lacks", PULUMI)
    with pytest.raises(previews.NoStackError, match="pulumi stack init dev makes it"):
        previews.of_state(source(tmp_path / "lacks"), "dev")
    fake_pulumi(tmp_path / "fails", PULUMI.replace("no stack named 'dev' found", "passphrase must be set"))
    assert "passphrase must be set" in previews.of_state(source(tmp_path / "fails"), "dev").errors[0]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which ways of previewing were taken; the state's is one of a stack that nobody has made."""
    ways: list[str] = []

    def of_state(_source: previews.Source, stack: str) -> Preview:
        ways.append("state")
        raise previews.NoStackError(f"its backend has no stack {stack}")

    def of_standin(_source: previews.Source, _stack: str, _now: datetime) -> Preview:
        ways.append("standin")
        return preview(made.job("create"), made.cost(9.7))

    monkeypatch.setattr(previews, "of_state", of_state)
    monkeypatch.setattr(previews, "of_standin", of_standin)
    return ways


def told(out: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[dict[str, Any], str]:
    assert main(["preview", "-s", "dev", "--base-at", str(out.parent), "--out", str(out), *options]) == 0
    assert main(["comment", "--from", str(out), "--commit", "c", "--print"]) == 0
    summary: dict[str, Any] = json.loads((out / "dev.json").read_text())
    return summary, capsys.readouterr().out


def test_a_stack_that_nobody_has_made_is_previewed_with_stand_ins_and_said_to_be(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary, text = told(tmp_path / "out", capsys)
    assert asked == ["state", "standin"]
    assert summary["standin"] and not summary["failed"]
    assert "`dev` was previewed without an account: its backend has no stack dev" in text


def test_without_a_role_the_state_is_not_asked_and_the_reader_is_told_why(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = told(tmp_path / "out", capsys, "--standin", "the variable PREVIEW_ROLE is not set")
    assert asked == ["standin"]
    assert "`dev` was previewed without an account: the variable PREVIEW\\_ROLE is not set" in text
    _, text = told(tmp_path / "out", capsys, "--standin")
    assert "was previewed without an account" not in text
