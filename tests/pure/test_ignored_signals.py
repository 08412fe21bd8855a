"""What a process was started to ignore (`nohup`, `&`) stays ignored, whatever it has under way; the rest is heard."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capacity.held_signals import held_signals
from efactl import compare, engine_run
from efactl import stack as stacks
from efactl.stack import Stack
from tests.support.project import ROOT
from tools.acceptance import __main__ as acceptance
from workload.signal_handlers import handled, heeded

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def ignored() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ALL}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def pulumi(folder: Path, *signals: str, status: int) -> Callable[[], str]:
    """One that sends signals to whoever started it."""
    file = folder / "pulumi"
    sent = [f"kill -{name} $PPID" for name in signals]
    file.write_text("\n".join(["#!/bin/sh", "sleep 0.3", *sent, "sleep 0.3", f"exit {status}"]))
    file.chmod(0o755)
    return lambda: str(file)


def test_a_handler_answers_what_is_heeded_alone_and_what_was_there_comes_back() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    term = signal.getsignal(signal.SIGTERM)
    try:
        assert heeded((signal.SIGHUP, signal.SIGTERM)) == (signal.SIGTERM,)
        with handled((signal.SIGHUP, signal.SIGTERM), lambda number, _frame: heard.append(number)):
            for number in (signal.SIGHUP, signal.SIGTERM):
                signal.raise_signal(number)
        assert heard == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == term
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("ignored")
def test_a_probe_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with held_signals(print, "interrupted") as came:
        for number in ALL:
            signal.raise_signal(number)
        assert not came()
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("ignored")
def test_a_bring_up_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_run, "pulumi_command", pulumi(tmp_path, "HUP", "INT", "TERM", status=1))
    said: list[str] = []
    done = engine_run.run_up("dev", [], log=tmp_path / "up.events", watch=None, say=said.append)
    assert (done.status, done.interrupted) == (1, False)
    assert said == []


def test_a_bring_up_that_nobody_shields_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_run, "pulumi_command", pulumi(tmp_path, "HUP", status=1))
    said: list[str] = []
    done = engine_run.run_up("dev", [], log=tmp_path / "up.events", watch=None, say=said.append)
    assert done.interrupted
    assert "interrupted: what is under way ends in order" in said[0]


@pytest.mark.usefixtures("ignored")
def test_a_stacks_up_or_down_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "pulumi_command", pulumi(tmp_path, "INT", "TERM", status=1))
    assert Stack("dev").run(["destroy"], aside=True) == 1


@pytest.mark.usefixtures("ignored")
def test_a_comparison_goes_on() -> None:
    with compare._interruption() as event:
        assert {signal.getsignal(number) for number in ALL} == {signal.SIG_IGN}
    assert not event.is_set()


UP = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_DFL)
time.sleep(0.3)
os.kill(os.getppid(), signal.SIGTERM)
time.sleep(0.3)
"""


@pytest.mark.usefixtures("ignored")
def test_an_acceptance_goes_on(tmp_path: Path) -> None:
    (tmp_path / "efactl").mkdir()
    (tmp_path / "efactl" / "__main__.py").write_text(UP)
    assert acceptance.up("dev", tmp_path) == 0


DASHBOARD = """
import asyncio, signal
from types import SimpleNamespace
from efactl import ui
signal.signal(signal.SIGHUP, signal.SIG_IGN)

class Proxy:
    url = "http://127.0.0.1"
    def __init__(self, *_, **__): ...
    def serving(self, _port): return self
    async def __aenter__(self): ...
    async def __aexit__(self, *_): ...
    async def ask(self):
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, signal.raise_signal, signal.SIGHUP)
        loop.call_later(0.4, print, "goes on")
        loop.call_later(0.5, signal.raise_signal, signal.SIGTERM)

ui.DashboardProxy = Proxy
asyncio.run(ui._served(None, "dev", SimpleNamespace(port=0, json=True, browser=False)))
"""


def test_a_dashboard_stays_open() -> None:
    done = subprocess.run([sys.executable, "-c", DASHBOARD], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "goes on" in done.stdout
