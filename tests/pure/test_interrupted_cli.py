"""A Pulumi CLI that efactl asks is never cut off, nor asked about what another one has under way."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from capacity import adoption
from capacity.pulumi_cli import PulumiCli
from efactl import stack as module
from efactl.settle import settle
from efactl.stack import PROJECT, Stack
from tests.support.project import ROOT, wait_for
from tools.acceptance import __main__ as acceptance
from tools.setup.console import run_visibly
from workload.errors import ReportedError

SLOW = """#!/bin/bash
trap 'echo > ended; exit 1' INT TERM
echo > begun
while true; do sleep 0.05; done
"""
PAUSED = """
import os, pathlib, signal, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: sys.exit(130))
draft = pathlib.Path("draft")
draft.write_text(str(os.getpid()))
draft.rename("begun")
signal.pause()
"""


def pulumi(folder: Path, script: str) -> PulumiCli:
    file = folder / "pulumi"
    file.write_text(script)
    file.chmod(0o755)
    cli = PulumiCli(folder)
    cli._command = str(file)
    return cli


def test_an_interruption_waits_until_pulumi_has_ended_in_order(tmp_path: Path) -> None:
    cli = pulumi(tmp_path, SLOW)

    def interrupt() -> None:
        wait_for(lambda: (tmp_path / "begun").exists(), seconds=30, what="pulumi runs")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        cli.run("destroy")
    assert (tmp_path / "ended").exists()


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def struck(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> signal.Signals:
    """A signal that comes when a program runs already, and whoever starts it does not know of it yet."""
    number: signal.Signals = request.param

    class Struck(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            wait_for(lambda: (tmp_path / "begun").exists(), seconds=60, what="the program runs")
            signal.raise_signal(number)

    monkeypatch.setattr(subprocess, "Popen", Struck)
    return number


@pytest.mark.parametrize("struck", [signal.SIGINT], indirect=True)
@pytest.mark.usefixtures("struck")
def test_an_interruption_while_pulumi_is_started_reaches_it(tmp_path: Path) -> None:
    cli = pulumi(tmp_path, SLOW)
    with pytest.raises(KeyboardInterrupt):
        cli.run("destroy")
    assert (tmp_path / "ended").exists()


@pytest.mark.usefixtures("struck")
def test_so_it_is_where_pulumi_has_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli, stack = pulumi(tmp_path, SLOW), Stack("dev")
    monkeypatch.setattr(module, "pulumi_command", lambda: cli._command)
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        stack.run(["destroy"], aside=True)
    assert (tmp_path / "ended").exists()


def test_so_it_is_where_an_acceptance_starts_its_up(tmp_path: Path, struck: signal.Signals) -> None:
    (tmp_path / "efactl").mkdir()
    (tmp_path / "efactl" / "__main__.py").write_text(PAUSED)
    assert acceptance.up("dev", tmp_path) == 130


def test_a_program_that_set_up_is_starting_ends_with_it(tmp_path: Path, struck: signal.Signals) -> None:
    (tmp_path / "program.py").write_text(PAUSED)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_visibly("test", [sys.executable, "program.py"], cwd=tmp_path)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not psutil.pid_exists(int((tmp_path / "begun").read_text()))


def test_what_another_pulumi_has_under_way_is_not_taken_for_what_a_killed_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", tmp_path.as_uri())
    locks = tmp_path / ".pulumi" / "locks" / "organization" / PROJECT / "dev"
    locks.mkdir(parents=True)
    holder = {"pid": os.getpid(), "hostname": socket.gethostname()}
    (locks / "one.json").write_text(json.dumps(holder))
    stack = Stack("dev")
    assert stack.release_dead_locks() == []
    with pytest.raises(ReportedError, match=rf"another pulumi is at work on stack dev \(pid {os.getpid()} on"):
        stack.settle(lambda _line: None, region="us-west-2", name="ray-dev", access=stack.access())


def test_the_state_is_read_again_after_a_wait_for_a_control_plane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's run went on meanwhile: an older state put back would forget what it made."""
    cluster = {
        "urn": "urn:pulumi:dev::p::aws:eks/cluster:Cluster::c",
        "type": "aws:eks/cluster:Cluster",
        "custom": True,
        "inputs": {"name": "ray-dev"},
    }
    file = tmp_path / "state.json"
    file.write_text(
        json.dumps({"deployment": {"pending_operations": [{"type": "creating", "resource": cluster}], "resources": []}})
    )

    def waited(*_: Any, **__: Any) -> None:
        file.write_text(json.dumps({"deployment": {"resources": [{**cluster, "type": "other", "id": "ray-dev"}]}}))

    monkeypatch.setattr(adoption, "wait_for_cluster", waited)
    cli = pulumi(tmp_path, f'#!/bin/bash\n[ "$2" = export ] && cat {file} || echo "$@" >> asked\n')
    there = settle(cli, "dev", lambda _line: None, region="us-west-2", name="ray-dev")
    assert [one["id"] for one in there] == ["ray-dev"]
    assert not (tmp_path / "asked").exists(), "nothing is put back"


def test_a_reader_that_is_gone_is_no_traceback(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    log = ROOT / "tests" / "corpus" / "nccl" / "attempt-1.log"
    done = subprocess.run(
        [sys.executable, "-m", "efactl", "transport", "--expect", "efa", "--json", str(log)],
        cwd=ROOT,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    assert done.returncode == 1
    assert done.stderr == ""


IN_A_FINALIZER = """
import os, signal, sys, time, weakref
from efactl import interruption

class Connection: ...

def close():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass

if sys.argv[1] == "kept":
    interruption.keep()
connection = Connection()
weakref.finalize(connection, close)
try:
    del connection
    time.sleep(3)
    print("lost")
except KeyboardInterrupt:
    print("heard")
"""


@pytest.mark.parametrize(("how", "came"), [("python's own", "lost"), ("kept", "heard")])
def test_a_ctrl_c_that_strikes_while_a_connection_is_closed_is_not_lost(how: str, came: str) -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_FINALIZER, how], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == came
    assert ("KeyboardInterrupt" in done.stderr) == (came == "lost")
