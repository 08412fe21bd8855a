"""When a cluster reached what: asked of its API server a few times a second."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tools.bed import Bed
from tools.bed.api import ApiError

GPU_LABEL = "nvidia.com/gpu.present"
DEVICES = ("nvidia.com/gpu", "vpc.amazonaws.com/efa")
_LOOK_S = 0.2


def reached(
    nodes: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]], clusters: Sequence[Any], *, gpu_nodes: int
) -> set[str]:
    """PURE. Of the Kubernetes objects there are; `clusters` are RayClusters, with a head and a worker a GPU node."""
    gpu = [node for node in nodes if node["metadata"]["labels"].get(GPU_LABEL) == "true" and _is_ready(node)]
    system = [node for node in nodes if node["metadata"]["labels"].get(GPU_LABEL) != "true" and _is_ready(node)]
    offering = [node for node in gpu if all(int(node["status"]["allocatable"].get(one, 0)) for one in DEVICES)]
    ready = [pod for pod in pods if _is_ready(pod)]
    ray = [pod for pod in pods if "ray.io/cluster" in pod["metadata"].get("labels", {})]

    def named(part: str) -> int:
        return sum(1 for pod in ready if pod["metadata"]["name"].startswith(part))

    found = {
        "GPU nodes": len(gpu) >= gpu_nodes,
        "system nodes": bool(system),
        "devices": len(offering) >= gpu_nodes,
        "worker image": named("ray-image-pull-") >= gpu_nodes,
        "head image": named("ray-head-image-pull-") >= 1,
        "RayCluster": bool(clusters),
        # The operator's Ready comes seconds after it has begun to work.
        "Ray pods": bool(ray),
        "Ray": sum(map(_is_ready, ray)) >= gpu_nodes + 1,
    }
    return {name for name, done in found.items() if done}


def _is_ready(item: Mapping[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in item["status"].get("conditions", ()))


class Milestones:
    """Looks for as long as its `with` block lasts; `at` has the first moment of each, by time.monotonic."""

    def __init__(self, bed: Bed, *, gpu_nodes: int) -> None:
        self.at: dict[str, float] = {}
        self._bed, self._gpu_nodes = bed, gpu_nodes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Milestones":
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_LOOK_S):
            nodes = self._bed.api.list("/api/v1/nodes")
            pods = self._bed.api.list("/api/v1/pods")
            found = reached(nodes, pods, self._clusters(), gpu_nodes=self._gpu_nodes)
            now = time.monotonic()
            for name in found:
                self.at.setdefault(name, now)

    def _clusters(self) -> list[Any]:
        try:
            return self._bed.api.list("/apis/ray.io/v1/rayclusters")
        except ApiError as error:
            # The operator's chart brings what defines them.
            if error.status == 404:
                return []
            raise
