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

import pytest

from capacity import adoption
from capacity.pulumi_cli import PulumiCli
from efactl.settle import settle
from efactl.stack import PROJECT, Stack
from tests.support.project import ROOT, wait_for
from workload.errors import ReportedError

SLOW = """#!/bin/bash
trap 'echo > ended; exit 1' INT
echo > begun
while true; do sleep 0.05; done
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
