"""The processes of one local cluster, told apart from all others by a variable in their environment.

Ray moves its processes between parents, renames them and starts new ones at any time, so neither a process
group nor a list of pids names them all. The environment is inherited by every one of them, job drivers included.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

CLUSTER_VARIABLE = "RAY_TRAIN_EFA_CLUSTER"
DIRECTORY_VARIABLE = "RAY_TRAIN_EFA_CLUSTER_DIRECTORY"

_GRACE_SECONDS = 3.0
_LIMIT_SECONDS = 30.0


class ProcessesRemainError(Exception):
    """Processes outlived SIGKILL for 30 s (stuck in the kernel)."""


def is_alive(pid: int, create_time: float) -> bool:
    """Whether this very process still runs: a reused pid has another create time, a zombie has ended."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - create_time) < 0.5 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def marked(directory: Path) -> list[psutil.Process]:
    """Every process that carries the mark of the cluster in `directory`, without this process and its ancestors."""
    return list(_marked(str(directory)))


def _marked(directory: str) -> Iterator[psutil.Process]:
    own = psutil.Process()
    spared = {own.pid, *(parent.pid for parent in own.parents())}
    for process in psutil.process_iter():
        if process.pid in spared:
            continue
        try:
            if process.environ().get(DIRECTORY_VARIABLE) == directory and process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except (psutil.Error, OSError):
            continue


def end_marked(directory: Path, *, grace: float = _GRACE_SECONDS) -> tuple[int, ...]:
    """TERM, then KILL after `grace` seconds, whatever carries the mark, until two looks in a row find nothing.

    Returns the pids that were ended. Raises ProcessesRemainError when some can't be.
    """
    started = time.monotonic()
    ended: set[psutil.Process] = set()
    empty_looks = 0
    while empty_looks < 2:
        found = marked(directory)
        if not found:
            empty_looks += 1
            time.sleep(0.02)
            continue
        empty_looks = 0
        waited = time.monotonic() - started
        if waited > _LIMIT_SECONDS:
            raise ProcessesRemainError(f"still running after SIGKILL: pids {sorted(process.pid for process in found)}")
        gcs = {process for process in found if _is_gcs(process)}
        for process in found:
            if waited > grace or gcs == set(found):
                _signal(process, psutil.Process.kill)
            elif process not in ended and process not in gcs:
                _signal(process, psutil.Process.terminate)
        ended.update(found)
        psutil.wait_procs(found, timeout=0.1)
    return tuple(sorted(process.pid for process in ended))


def _is_gcs(process: psutil.Process) -> bool:
    """Ray's GCS server ends last: a raylet that is asked to end says goodbye to it, or waits ten seconds in vain."""
    try:
        return process.name() == "gcs_server"
    except psutil.Error:
        return False


def _signal(process: psutil.Process, send: Callable[[psutil.Process], None]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        send(process)
