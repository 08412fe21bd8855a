"""The nodes of a local cluster by Ray's own Node class: Ray is imported once, and all nodes start beside each other.

`ray start` would import Ray for each node and wait for each part in turn: 25 s instead of 10 on 2 cores. Inner parts of
Ray are used for it, so the version is pinned and tests/local holds them to what they do. Only the launcher imports this.
"""

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
from ray.core.generated.gcs_pb2 import GcsNodeInfo

from infra.local_launcher import Order

_LOOPBACK = "127.0.0.1"
# Each of the dashboard's nine modules is a process that costs 1.5 s of CPU. Jobs need the first of these, Ray Train's
# placement group cleaner and `ray list` the second.
_DASHBOARD_MODULES = "JobHead,StateHead"


class RayNodes:
    """A head and its workers. `spawning` is held while a process starts; `began` is the start on time.monotonic."""

    def __init__(self, order: Order, *, spawning: threading.Lock, began: float) -> None:
        self._order = order
        self._spawning = spawning
        self._began = began
        self._timings = {"import": self._now()}
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self._head: Any = None
        self._workers: dict[int, Any] = {}

    def start(self) -> dict[str, Any]:
        """Start every node, wait until all are registered and the Jobs API answers; return the state to record."""
        self._wrap_spawning()
        self._node(
            "h",
            num_cpus=0,
            resources={},
            gcs_server_port=0,
            include_dashboard=True,
            dashboard_host=_LOOPBACK,
            dashboard_port=self._order.dashboard_port,
        )
        self._timings["head"] = self._now()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        nodes = [self._head, *(self._workers[number] for number in sorted(self._workers))]
        for node in nodes:
            # As `ray start` does; without it a job's driver joins whatever Ray cluster it finds first on the machine.
            write_ray_address(node.gcs_address, node.temp_dir)
        if not self._order.dashboard_ui:
            # The Jobs API looks its agent up by this id, which the NodeHead module, not loaded here, would write.
            self._head.get_gcs_client().internal_kv_put(
                ray_constants.KV_HEAD_NODE_ID_KEY, self._head.node_id.encode(), True, ray_constants.KV_NAMESPACE_JOB
            )
        self._timings["ready"] = self._now()
        return self._state(nodes)

    def gcs_is_up(self, head: Any) -> None:
        """Called by the head once its GCS listens."""
        self._head = head
        self._timings["gcs"] = self._now()
        # For what looks its cluster up by itself, such as the placement group cleaner: it would take any other cluster
        # of this machine. Inherited by everything started from here on.
        os.environ["RAY_ADDRESS"] = head.gcs_address

    def raylet_starts(self, node: Any) -> None:
        """Called by each node once its raylet's process is there; the head's lets the workers start."""
        if node is not self._head:
            return
        # A worker asks the GCS for the head's directories, which are there only after the head has registered: answer
        # it here, so that all nodes start at once.
        info = SimpleNamespace(
            state=GcsNodeInfo.GcsNodeState.ALIVE, temp_dir=node.temp_dir, session_dir=node.get_session_dir_path()
        )
        ray_node.get_all_node_info_until_retrieved = lambda *args, **kwargs: [info]
        for number in range(1, self._order.worker_nodes + 1):
            self.beside(lambda number=number: self._start_worker(number))

    def beside(self, work: Callable[[], Any]) -> None:
        """Run `work` in a thread that `start` waits for; its error becomes that of `start`."""

        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 2)

    def _start_worker(self, number: int) -> None:
        trainers = self._order.trainers_per_node
        self._workers[number] = self._node(
            f"w{number}", num_cpus=trainers, resources={"trainer": trainers}, gcs_address=self._head.gcs_address
        )

    def _node(self, place: str, **parameters: Any) -> Any:
        return _Node(
            self,
            RayParams(
                node_ip_address=_LOOPBACK,
                node_name=f"{self._order.name}-{'head' if place == 'h' else place}",
                temp_dir=str(Path(self._order.directory) / place),
                num_gpus=0,
                object_store_memory=self._order.object_store_bytes,
                min_worker_port=0,
                max_worker_port=0,
                dashboard_agent_listen_port=0,
                no_monitor=True,
                **parameters,
            ),
            head=place == "h",
        )

    def _wrap_spawning(self) -> None:
        start_ray_process = services.start_ray_process

        def start_one(command: list[str], process_type: str, *args: Any, **kwargs: Any) -> Any:
            if process_type == ray_constants.PROCESS_TYPE_DASHBOARD and not self._order.dashboard_ui:
                command = [*command, f"--modules-to-load={_DASHBOARD_MODULES}"]
            with self._spawning:
                return start_ray_process(command, process_type, *args, **kwargs)

        services.start_ray_process = start_one

    def _state(self, nodes: list[Any]) -> dict[str, Any]:
        accessor = GlobalState()
        accessor._initialize_global_state(services._get_gcs_client_options(self._head.gcs_address))
        registered = {entry["NodeID"]: entry for entry in accessor.node_table() if entry["Alive"]}
        return {
            "gcs_address": self._head.gcs_address,
            "address": f"http://{self._head.webui_url}",
            "session_name": self._head.session_name,
            "timings": self._timings,
            "nodes": [
                {
                    "role": "head" if node is self._head else "worker",
                    "name": registered[node.node_id]["NodeName"],
                    "node_id": node.node_id,
                    "temp_dir": node.temp_dir,
                    "resources": registered[node.node_id]["Resources"],
                    "processes": {
                        part: _identity(started[0].process.pid) for part, started in node.all_processes.items()
                    },
                }
                for node in nodes
            ],
        }


class _Node(ray_node.Node):  # type: ignore[misc]
    """Ray's Node, which reports when its parts are there and leaves the dashboard, the slowest of them, to a thread."""

    def __init__(self, nodes: RayNodes, parameters: RayParams, *, head: bool) -> None:
        self._nodes = nodes
        super().__init__(parameters, head=head, shutdown_at_exit=False, spawn_reaper=False)

    def start_api_server(self, **options: Any) -> None:
        self._nodes.gcs_is_up(self)
        start = super().start_api_server
        self._nodes.beside(lambda: start(**options))

    def start_raylet(self, *args: Any, **kwargs: Any) -> None:
        super().start_raylet(*args, **kwargs)
        self._nodes.raylet_starts(self)


def _identity(pid: int) -> tuple[int, float]:
    return pid, psutil.Process(pid).create_time()
