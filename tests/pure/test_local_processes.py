"""Which processes belong to a cluster, and how they end: with real processes, without Ray."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from infra import local_processes
from infra.local_processes import DIRECTORY_VARIABLE

SLEEPER = "import time; print('up', flush=True); time.sleep(300)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
PARENT_OF_ORPHAN = """
import subprocess
child = subprocess.Popen(["sleep", "300"], start_new_session=True)
print(child.pid, flush=True)
"""
ENDS_ITS_OWN = """
import sys
from pathlib import Path
from infra import local_processes
print(local_processes.end_marked(Path(sys.argv[1])))
"""
# Starts another of its kind when it is asked to end, three times over.
SUCCESSION = """
import os, signal, subprocess, sys, time
left = int(sys.argv[1])
def heir(*_):
    if left:
        subprocess.Popen([sys.executable, "-c", os.environ["SUCCESSION"], str(left - 1)], start_new_session=True)
    os._exit(0)
signal.signal(signal.SIGTERM, heir)
print("up", flush=True)
time.sleep(300)
"""


@contextmanager
def marked_process(directory: Path, program: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A Python process with the mark and the first line it prints."""
    environment = {**os.environ, DIRECTORY_VARIABLE: str(directory), "SUCCESSION": SUCCESSION}
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.02)
    return False


def test_only_processes_with_this_directorys_mark_are_ended(tmp_path: Path) -> None:
    with (
        marked_process(tmp_path / "a", SLEEPER) as (ours, _),
        marked_process(tmp_path / "ab", SLEEPER) as (theirs, _),
        subprocess.Popen(["sleep", "300"]) as unmarked,
    ):
        try:
            assert local_processes.end_marked(tmp_path / "a") == (ours.pid,)
            assert not psutil.pid_exists(ours.pid)
            assert theirs.poll() is None
            assert unmarked.poll() is None
        finally:
            unmarked.kill()


def test_a_process_that_ignores_term_is_killed(tmp_path: Path) -> None:
    with marked_process(tmp_path, STUBBORN) as (stubborn, _):
        assert local_processes.end_marked(tmp_path, grace=0.3) == (stubborn.pid,)
        assert not psutil.pid_exists(stubborn.pid)


def test_an_orphan_in_a_session_of_its_own_is_found(tmp_path: Path) -> None:
    with marked_process(tmp_path, PARENT_OF_ORPHAN) as (parent, orphan):
        parent.wait(60)
        assert [process.pid for process in local_processes.marked(tmp_path)] == [int(orphan)]
        assert local_processes.end_marked(tmp_path) == (int(orphan),)


def test_processes_that_appear_while_others_end_are_ended_too(tmp_path: Path) -> None:
    with marked_process(tmp_path, SUCCESSION, "3") as (first, _):
        ended = local_processes.end_marked(tmp_path)
        assert first.pid in ended
        assert len(ended) > 1, "the heir came after the end was announced"
    assert not within(1.0, lambda: bool(local_processes.marked(tmp_path)))


def test_the_caller_is_spared_when_it_carries_the_mark_itself(tmp_path: Path) -> None:
    with marked_process(tmp_path, ENDS_ITS_OWN, str(tmp_path)) as (caller, printed):
        assert printed == "()"
        assert caller.wait(60) == 0


def test_a_zombie_and_a_reused_pid_are_not_alive() -> None:
    own = psutil.Process()
    assert local_processes.is_alive(own.pid, own.create_time())
    assert not local_processes.is_alive(own.pid, own.create_time() - 100), "the pid now belongs to another process"
    child = subprocess.Popen(["sleep", "300"])
    created = psutil.Process(child.pid).create_time()
    child.kill()
    assert within(30, lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    assert not local_processes.is_alive(child.pid, created)
    child.wait()
