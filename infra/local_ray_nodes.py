"""The nodes of a local cluster by Ray's own Node class: Ray is imported once, and parts start beside each other.

`ray start` would import Ray for each node and wait for each part in turn (benchmarks/local_ray_start.py compares).
Inner parts of Ray are used for it: the version is pinned, tests/local holds them to what they do. Only the launcher
imports this.
"""

import functools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
from ray._private import node as ray_node
from ray._private import ray_constants, services
from ray._private.parameter import RayParams
from ray._private.state import GlobalState
from ray._private.utils import write_ray_address
from ray._raylet import DASHBOARD_AGENT_LISTEN_PORT_NAME, persist_port  # type: ignore[attr-defined]
from ray.core.generated.gcs_pb2 import GcsNodeInfo
from ray.dashboard.consts import DASHBOARD_AGENT_ADDR_NODE_ID_PREFIX

from infra.local_cluster import Order
from infra.local_ports import choose_block

_LOOPBACK = "127.0.0.1"
# Each of the dashboard's nine modules is a process that costs 1.5 s of CPU. Jobs need the first of these, Ray Train's
# placement group cleaner and `ray list` the second.
_DASHBOARD_MODULES = "JobHead,StateHead"


class PartEndedError(Exception):
    """A process of the cluster ended while the cluster started."""


class RayNodes:
    """A head and its workers. `spawning` is held while a process starts; `began` is the start on time.monotonic."""

    def __init__(self, order: Order, *, spawning: threading.Lock, began: float) -> None:
        self._order = order
        self._spawning = spawning
        self._began = began
        self._ports = choose_block()
        self._timings = {"import": self._now()}
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self._nodes: list[Any] = []
        self._wrap_spawning()

    def start(self) -> dict[str, Any]:
        """Start the nodes until all are registered and the head takes jobs; return the state to record.

        The worker nodes' agents, 2 s of CPU each, are still loading then: a job's driver has its own to load meanwhile.
        """
        self.beside(self._start_head)
        self._wait(lambda: bool(self._nodes) and self._takes_jobs(self._nodes[0]))
        self._timings["head"] = self._now()
        for number in range(1, self._order.worker_nodes + 1):
            self.beside(functools.partial(self._start_worker, number))
        self._wait(lambda: True)
        self._timings["ready"] = self._now()
        return self._state()

    def beside(self, work: Callable[[], Any]) -> None:
        """Run `work` in a thread that `_wait` waits for and whose error it raises."""

        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def gcs_is_up(self, head: Any) -> None:
        """Called by the head once its GCS listens."""
        self._nodes.append(head)
        self._timings["gcs"] = self._now()
        # For what looks its cluster up by itself, such as the placement group cleaner: it would take any other cluster
        # of this machine. Inherited by everything started from here on.
        os.environ["RAY_ADDRESS"] = head.gcs_address

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 2)

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Until every thread has ended and `ready`; the starter's deadline ends this process if that never comes."""
        while any(thread.is_alive() for thread in self._threads) or not ready():
            for node in list(self._nodes):  # copies: threads add to both
                for part, started in list(node.all_processes.items()):
                    if started[0].process.poll() is not None:
                        self._failures.append(PartEndedError(f"{part} of {node.temp_dir} ended"))
            if self._failures:
                break
            time.sleep(0.05)
        if self._failures:
            raise self._failures[0]

    def _start_head(self) -> None:
        head = self._node(
            "h",
            num_cpus=0,
            resources={},
            gcs_server_port=self._ports.gcs,
            include_dashboard=True,
            dashboard_host=_LOOPBACK,
            dashboard_port=self._order.dashboard_port,
        )
        # A worker node asks the GCS for the head's directories; it would get them only some time after the head is up.
        info = SimpleNamespace(
            state=GcsNodeInfo.GcsNodeState.ALIVE, temp_dir=head.temp_dir, session_dir=head.get_session_dir_path()
        )
        ray_node.get_all_node_info_until_retrieved = lambda *args, **kwargs: [info]

    def _takes_jobs(self, head: Any) -> bool:
        address = head.get_gcs_client().internal_kv_get(
            f"{DASHBOARD_AGENT_ADDR_NODE_ID_PREFIX}{head.node_id}".encode(), ray_constants.KV_NAMESPACE_DASHBOARD
        )
        if address and not self._order.dashboard_ui:
            # The Jobs API looks its agent up by this id, which the NodeHead module, not loaded here, would write.
            head.get_gcs_client().internal_kv_put(
                ray_constants.KV_HEAD_NODE_ID_KEY, head.node_id.encode(), True, ray_constants.KV_NAMESPACE_JOB
            )
        return bool(address)

    def _start_worker(self, number: int) -> None:
        trainers = self._order.trainers_per_node
        self._nodes.append(
            self._node(
                f"w{number}",
                num_cpus=trainers,
                resources={"trainer": trainers},
                gcs_address=self._nodes[0].gcs_address,
            )
        )

    def _node(self, place: str, **parameters: Any) -> Any:
        node = _Node(
            self,
            RayParams(
                node_ip_address=_LOOPBACK,
                node_name=f"{self._order.name}-{'head' if place == 'h' else place}",
                temp_dir=str(Path(self._order.directory) / place),
                num_gpus=0,
                object_store_memory=self._order.object_store_bytes,
                min_worker_port=0,
                max_worker_port=0,
                no_monitor=True,
                **self._ports.node(),
                **parameters,
            ),
            head=place == "h",
        )
        # As `ray start` does; without it a job's driver joins whatever Ray cluster it finds first on the machine.
        write_ray_address(node.gcs_address, node.temp_dir)
        return node

    def _wrap_spawning(self) -> None:
        start_ray_process = services.start_ray_process

        def start_one(command: list[str], process_type: str, *args: Any, **kwargs: Any) -> Any:
            if process_type == ray_constants.PROCESS_TYPE_DASHBOARD and not self._order.dashboard_ui:
                command = [*command, f"--modules-to-load={_DASHBOARD_MODULES}"]
            with self._spawning:
                return start_ray_process(command, process_type, *args, **kwargs)

        services.start_ray_process = start_one

    def _state(self) -> dict[str, Any]:
        head, *workers = self._nodes
        accessor = GlobalState()
        accessor._initialize_global_state(services._get_gcs_client_options(head.gcs_address))
        registered = {entry["NodeID"]: entry for entry in accessor.node_table() if entry["Alive"]}
        return {
            "gcs_address": head.gcs_address,
            "address": f"http://{head.webui_url}",
            "session_name": head.session_name,
            "timings": self._timings,
            "nodes": [
                {
                    "role": "head" if node is head else "worker",
                    "name": registered[node.node_id]["NodeName"],
                    "node_id": node.node_id,
                    "temp_dir": node.temp_dir,
                    "resources": registered[node.node_id]["Resources"],
                    "processes": {part: _identity(one[0].process.pid) for part, one in node.all_processes.items()},
                }
                for node in (head, *sorted(workers, key=lambda worker: str(worker.temp_dir)))
            ],
        }


class _Node(ray_node.Node):  # type: ignore[misc]
    """Ray's Node, which leaves the dashboard, its slowest part, to a thread."""

    def __init__(self, nodes: RayNodes, parameters: RayParams, *, head: bool) -> None:
        self._cluster = nodes
        super().__init__(parameters, head=head, shutdown_at_exit=False, spawn_reaper=False)

    def start_api_server(self, **options: Any) -> None:
        self._cluster.gcs_is_up(self)
        start = super().start_api_server
        self._cluster.beside(lambda: start(**options))

    def start_raylet(self, *args: Any, **options: Any) -> None:
        # The raylet is not told this port: it waits for the agent's own note of it, 15 s at most, and then aborts.
        persist_port(
            self.get_session_dir_path(),
            self.node_id,
            DASHBOARD_AGENT_LISTEN_PORT_NAME,
            self._ray_params.dashboard_agent_listen_port,
        )
        super().start_raylet(*args, **options)


def _identity(pid: int) -> tuple[int, float]:
    return pid, psutil.Process(pid).create_time()
