"""A real Ray cluster of separate nodes on this machine: start, inspect, load, stop.

A head without trainers and N worker nodes, each its own raylet with its own ports and temporary directory, token
authentication on, everything on loopback. It outlives the process that starts it; nothing of it outlives a start that
did not end well.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from infra import local_checks, local_directory, local_processes, local_start
from infra.local_cluster import LocalCluster, LocalClusterError, LocalClusterSpec, LocalNode, load
from infra.local_directory import DirectoryError
from infra.local_health import Health, inspect
from infra.local_processes import ProcessesRemainError

__all__ = [
    "Health",
    "LocalCluster",
    "LocalClusterError",
    "LocalClusterSpec",
    "LocalNode",
    "cluster_directory",
    "inspect",
    "load",
    "start",
    "stop",
]

_LOCK_SECONDS = 60.0


def cluster_directory(project: Path, stack: str) -> Path:
    """The directory of this project's stack. It depends on TMPDIR: keep it with the cluster, don't ask again."""
    with _reported():
        return local_directory.cluster_directory(project, stack)


def start(spec: LocalClusterSpec, *, say: Callable[[str], None]) -> LocalCluster:
    """Start the cluster, or return the one that runs in the directory with the same spec.

    What a dead, half-dead or different predecessor left in the directory is ended first; its token is kept.
    Raises LocalClusterError; then, and after an interrupt, nothing of the cluster is left running.
    """
    with _reported():
        local_directory.create(spec.directory)
        with local_directory.locked(spec.directory, wait_seconds=_LOCK_SECONDS):
            return _adopted(spec, say=say) or _started(spec, say=say)


def stop(directory: Path, *, say: Callable[[str], None]) -> tuple[int, ...]:
    """End every process of the directory's cluster and remove the directory.

    Returns the pids ended: none, without an error, where there is no cluster.
    """
    with _reported():
        if not os.path.lexists(directory):
            return local_processes.end_marked(directory)
        try:
            with local_directory.locked(directory, wait_seconds=_LOCK_SECONDS):
                ended = local_processes.end_marked(directory)
                local_directory.clear(directory)
        except FileNotFoundError:  # another stop was faster
            return ()
        say(f"{len(ended)} processes of the local Ray cluster ended")
        return ended


def _adopted(spec: LocalClusterSpec, *, say: Callable[[str], None]) -> LocalCluster | None:
    cluster = load(spec.directory)
    state = local_directory.read_state(spec.directory)
    if cluster is None or state is None:
        return None
    if state["spec"] != spec.stored() or spec.token not in (None, cluster.token):
        say("the local cluster's settings changed: starting it anew")
        return None
    health = inspect(spec.directory)
    if health.state == "running":
        return cluster
    say(f"the local cluster is {health.state} ({'; '.join(health.reasons)}): starting it anew")
    return None


def _started(spec: LocalClusterSpec, *, say: Callable[[str], None]) -> LocalCluster:
    running = load(spec.directory)
    if running is not None and not running.address.endswith(f":{spec.dashboard_port}"):
        local_checks.check_port(spec.dashboard_port)
    local_processes.end_marked(spec.directory)
    local_directory.clear(spec.directory, keep_token=True)
    had_token = local_directory.read_token(spec.directory) is not None
    try:
        local_checks.check(spec)
        local_directory.write_token(spec.directory, spec.token)
        say(f"starting Ray {spec.ray_version}: a head and {spec.worker_nodes} worker nodes")
        local_start.launch(spec, keep_token=had_token, say=say)
    except BaseException:
        local_processes.end_marked(spec.directory)
        local_directory.clear(spec.directory, keep_token=had_token)
        raise
    cluster = load(spec.directory)
    if cluster is None:
        raise LocalClusterError(f"{spec.directory} was emptied while the local cluster started in it: start it again")
    say(f"Ray is up at {cluster.address} ({cluster.timings['total']} s)")
    return cluster


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise LocalClusterError(f"{error.filename} was removed in the meantime: try again") from error
    except (DirectoryError, ProcessesRemainError) as error:
        raise LocalClusterError(str(error)) from error
    except OSError as error:
        raise LocalClusterError(f"the local cluster's directory can't be used: {error}") from error
