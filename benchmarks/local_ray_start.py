"""How long a local cluster takes to start and stop, and what CPU it costs, beside `ray start` for each node.

    python -m benchmarks.local_ray_start [--rounds 3]

Both start a head and two worker nodes on this machine, in turn in each round, so that a busy machine slows both. CPU is
that of all processes of the cluster, launchers included, once it is idle again.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from infra import local_directory, local_nodes, local_processes, versions
from infra.local_environment import node_environment
from infra.local_nodes import LocalClusterSpec

_RAY = str(Path(sys.executable).with_name("ray"))
_OBJECT_STORE_BYTES = 100 * 1024**2


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Seconds; `settle` is how long after the start the cluster still used more than a tenth of a core."""

    start: float
    settle: float
    cpu: float
    processes: int
    stop: float


def ours(directory: Path) -> None:
    spec = LocalClusterSpec(
        name="benchmark",
        directory=directory,
        worker_nodes=2,
        trainers_per_node=2,
        object_store_bytes=_OBJECT_STORE_BYTES,
        dashboard_port=0,
        ray_version=versions.RAY,
    )
    local_nodes.start(spec, say=lambda _line: None)


def ray_start(directory: Path) -> None:
    """As by hand, one node after the other, with the ports that two clusters on a machine need."""
    local_directory.create(directory)
    local_directory.write_token(directory, None)
    environment = node_environment(cluster_id="benchmark", directory=directory)
    del environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"]  # `ray start` refuses worker nodes with it
    gcs, dashboard, client = _free_ports(3)
    size = f"--object-store-memory={_OBJECT_STORE_BYTES}"
    workers = ["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"]
    head = ["--head", f"--port={gcs}", f"--dashboard-port={dashboard}", f"--ray-client-server-port={client}"]
    commands = [[*head, "--num-cpus=0", f"--temp-dir={directory}/h"]]
    for number in (1, 2):
        resources = ["--num-cpus=2", '--resources={"trainer": 2}', f"--temp-dir={directory}/w{number}"]
        commands.append([f"--address={_machine_address()}:{gcs}", *resources])
    for command in commands:
        subprocess.run([_RAY, "start", *command, *workers, size], env=environment, check=True, capture_output=True)


def measure(start: Callable[[Path], None]) -> Measured:
    with tempfile.TemporaryDirectory(prefix="bench", dir="/tmp") as project:
        directory = local_nodes.cluster_directory(Path(project), "benchmark")
        before = psutil.Process().cpu_times()
        began = time.monotonic()
        try:
            start(directory)
            started = time.monotonic()
            spent = _settled_cpu(directory)
            settled = time.monotonic()
            processes = len(local_processes.marked(directory))
        finally:
            stopping = time.monotonic()
            local_nodes.stop(directory, say=lambda _line: None)
        after = psutil.Process().cpu_times()
        waited_for = after.children_user + after.children_system - before.children_user - before.children_system
        return Measured(
            start=started - began,
            settle=settled - started,
            cpu=spent + waited_for,
            processes=processes,
            stop=time.monotonic() - stopping,
        )


def _settled_cpu(directory: Path) -> float:
    last = _cpu(directory)
    while True:
        time.sleep(0.5)
        now = _cpu(directory)
        if now - last < 0.05:
            return now
        last = now


def _cpu(directory: Path) -> float:
    total = 0.0
    for process in local_processes.marked(directory):
        try:
            spent = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += spent.user + spent.system
    return total


def _free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _machine_address() -> str:
    """The address that `ray start` gives its nodes: of the interface with the default route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("8.8.8.8", 80))
        return str(probe.getsockname()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    results: dict[str, list[Measured]] = {"ray start": [], "local_nodes": []}
    for _ in range(rounds):
        for name, start in (("ray start", ray_start), ("local_nodes", ours)):
            results[name].append(measure(start))
            print(
                name, json.dumps({key: round(value, 2) for key, value in asdict(results[name][-1]).items()}), flush=True
            )
    medians = {name: statistics.median(one.start for one in measured) for name, measured in results.items()}
    print(f"median start: {medians}, ratio {medians['ray start'] / medians['local_nodes']:.1f}")


if __name__ == "__main__":
    main()
