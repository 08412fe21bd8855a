"""What is looked at before a local cluster starts: each problem is one sentence that names the setting."""

import importlib.metadata
import re
import shutil
import socket
import sys
from pathlib import Path

import psutil

from infra.local_cluster import LocalClusterError, LocalClusterSpec

_TRAINER_BYTES = 600 * 1024**2
_RAY_BYTES = 400 * 1024**2
_NODE_BYTES = 200 * 1024**2
_SMALLEST_DISK = 300 * 1024**2
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Ray keeps its object store


def memory_needed(spec: LocalClusterSpec) -> int:
    """Bytes that the nodes, their object stores (filled) and a small model's ranks need, by measurement."""
    nodes = spec.worker_nodes + 1
    ranks = spec.worker_nodes * spec.trainers_per_node
    return _RAY_BYTES + nodes * (_NODE_BYTES + spec.object_store_bytes) + ranks * _TRAINER_BYTES


def memory_available() -> int:
    """Bytes that new processes can have: the machine's, or less where a control group (a container) sets a limit."""
    available = int(psutil.virtual_memory().available)
    for limit_file, used_file in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            room = int(Path(limit_file).read_text()) - int(Path(used_file).read_text())
        except (OSError, ValueError):  # no such group, or "max"
            continue
        available = min(available, max(room, 0))
    return available


def check(spec: LocalClusterSpec) -> None:
    """Raises LocalClusterError with the first reason why such a cluster can't start on this machine now."""
    problem = (
        _platform_problem()
        or python_path_problem(sys.executable)
        or _ray_problem(spec.ray_version)
        or _port_problem(spec.dashboard_port)
        or _memory_problem(spec)
        or _shared_memory_problem(spec)
        or _disk_problem(spec.directory)
    )
    if problem:
        raise LocalClusterError(problem)


def check_port(port: int) -> None:
    """Raises LocalClusterError where the port is taken: asked before a running predecessor is ended for nothing."""
    if problem := _port_problem(port):
        raise LocalClusterError(problem)


def _platform_problem() -> str | None:
    if sys.platform == "linux":
        return None
    return f"the local platform runs on Linux, this is {sys.platform}: use a Linux machine or container"


def python_path_problem(python: str) -> str | None:
    """Ray starts workers through a shell with the interpreter's path unquoted (ray/_private/runtime_env/context.py)."""
    if not re.search(r"[\s'\"$`\\&;|<>()*?#]", python):
        return None
    return f"Ray can't start workers with the Python at '{python}': move the project to a path without such characters"


def _ray_problem(ray_version: str) -> str | None:
    try:
        installed = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        return f"Ray {ray_version} is needed, none is installed in {sys.prefix}: run `make setup`"
    if installed == ray_version:
        return None
    return f"Ray {ray_version} is needed, {installed} is installed in {sys.prefix}: run `make setup`"


def _port_problem(port: int) -> str | None:
    if port == 0:
        return None
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return f"localDashboardPort {port} can't be used ({error.strerror}): choose another, or 0 for any"
    return None


def _memory_problem(spec: LocalClusterSpec) -> str | None:
    needed = memory_needed(spec)
    available = memory_available()
    if needed <= available:
        return None
    return (
        f"too little memory: localWorkerNodes {spec.worker_nodes} x localTrainersPerNode {spec.trainers_per_node} need "
        f"about {_gib(needed)} with their object stores, {_gib(available)} are free: lower one, or free memory"
    )


def _shared_memory_problem(spec: LocalClusterSpec) -> str | None:
    if not _SHARED_MEMORY.is_dir():
        return None
    needed = (spec.worker_nodes + 1) * spec.object_store_bytes
    free = shutil.disk_usage(_SHARED_MEMORY).free
    if needed <= free:
        return None
    return (
        f"too little shared memory: localObjectStoreMiB {spec.object_store_bytes // 1024**2} on each node needs "
        f"{_gib(needed)}, {_SHARED_MEMORY} has {_gib(free)} free: lower localObjectStoreMiB or localWorkerNodes "
        "(in a container: raise its --shm-size)"
    )


def _disk_problem(directory: Path) -> str | None:
    free = shutil.disk_usage(directory).free
    if free >= _SMALLEST_DISK:
        return None
    return (
        f"too little disk: {directory} has {_gib(free)} free, Ray needs {_gib(_SMALLEST_DISK)}: free some or set TMPDIR"
    )


def _gib(size: int) -> str:
    return f"{size / 1024**3:.2f} GiB"
