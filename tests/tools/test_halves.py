"""`make test` is two runs of pytest side by side, and both count."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.halves import HALVES, SELECTED
from tools.setup import pins

STARTED = "import pytest\npytestmark = pytest.mark.engine\n"
# Each says that it has begun, and what it has cleaned up.
WAITS = """
import pathlib, time, pytest
@pytest.fixture
def thing():
    here = pathlib.Path(__file__)
    here.with_suffix(".began").touch()
    yield
    here.with_suffix(".cleaned").touch()
def test_waits(thing):
    time.sleep(600)
"""


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tools.halves", str(folder), "-q", "-p", "no:cacheprovider"]
    return subprocess.Popen(
        command, cwd=pins.PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


@pytest.mark.parametrize(("started", "others", "code"), [(True, True, 0), (False, True, 1), (True, False, 1)])
def test_it_passes_where_both_pass(tmp_path: Path, started: bool, others: bool, code: int) -> None:
    (tmp_path / "test_a.py").write_text(f"{STARTED}def test_one(): assert {started}\n")
    (tmp_path / "test_b.py").write_text(f"def test_two(): assert {others}\n")
    process = start(tmp_path)
    text, _ = process.communicate(timeout=120)
    assert process.returncode == code
    first, _, second = text.partition("\nall others:\n")
    for half, passes in ((first, started), (second, others)):
        assert f"1 {'passed' if passes else 'failed'}, 1 deselected" in half


@pytest.mark.parametrize("to_all", [True, False], ids=["a terminal's", "to this process alone"])
def test_an_interrupt_ends_both_in_order(tmp_path: Path, to_all: bool) -> None:
    (tmp_path / "test_a.py").write_text(STARTED + WAITS)
    (tmp_path / "test_b.py").write_text(WAITS)
    process = start(tmp_path)
    until = time.monotonic() + 120
    while len(list(tmp_path.glob("*.began"))) < 2:
        assert time.monotonic() < until
        time.sleep(0.05)
    (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert text.count("KeyboardInterrupt !!!") == 2
    assert sorted(path.name for path in tmp_path.glob("*.cleaned")) == ["test_a.cleaned", "test_b.cleaned"]


def test_one_that_comes_before_both_are_started_ends_both(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(STARTED + WAITS)
    (tmp_path / "test_b.py").write_text(WAITS)
    process = start(tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("two runs side by side")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM


def test_between_them_they_run_what_is_selected() -> None:
    assert SELECTED == "not full and not cluster"
    (_, first, one), (_, other, two) = HALVES
    assert one != two
    for marks in ({"engine"}, {"local"}, {"engine", "local"}, set[str]()):
        names = {mark: mark in marks for mark in ("engine", "local")}
        assert eval(first, {}, names) != eval(other, {}, names)
