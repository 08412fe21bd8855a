"""PURE: whether Ray counts the pods of its cluster as nodes, and each worker's accelerators."""

from collections.abc import Sequence
from dataclasses import dataclass

from infra.kubernetes_objects import Object
from infra.ray_cluster_state import DeclaredCluster, PodsReady
from infra.waiting import Failed, Waiting

REGISTER_S, RESOURCE_S, REFUSED_S = 120.0, 30.0, 20.0
UNAUTHORIZED = (401, 403)


@dataclass(frozen=True, kw_only=True)
class RayView:
    """What the head says: its version, and every node that Ray knows (/api/v0/nodes), dead ones too.

    `error` says why it could not be asked, `status` is an HTTP refusal's; `hopeless`: nor will it ever.
    """

    version: str = ""
    nodes: Sequence[Object] = ()
    error: str = ""
    status: int = 0
    hopeless: bool = False


def judge_ray(
    declared: DeclaredCluster, ready: PodsReady, ray: RayView, *, client_version: str
) -> Waiting | Failed | None:
    """None when Ray counts exactly these pods as alive nodes, each worker with its accelerators."""
    if ray.status in UNAUTHORIZED:
        return Waiting(
            reason=f"the head refuses this stack's token ({ray.error}): its pods were started with another Secret",
            code="token",
            patience=REFUSED_S,
        )
    if ray.hopeless:
        return Failed(reason=ray.error)
    if ray.error:
        return Waiting(reason=f"all pods are Ready, the head does not answer yet: {ray.error}", code="dashboard")
    if ray.version != declared.ray_version:
        return Failed(
            reason=f"the head runs Ray {ray.version}, declared is {declared.ray_version}: "
            "declare the version that the image holds, or the image that holds this version"
        )
    if ray.version != client_version:
        return Failed(
            reason=f"the head runs Ray {ray.version}, this machine's client is {client_version}: install the head's"
        )
    alive = {str(node["node_ip"]): node for node in ray.nodes if node.get("state") == "ALIVE"}
    pods = {str(pod["status"]["podIP"]): pod for pod in ready.all}
    for address, pod in pods.items():
        if address not in alive:
            return Waiting(
                reason=f"Ray counts {len(alive)} of {len(pods)} nodes: pod {pod['metadata']['name']} ({address}) is "
                "Ready and has not registered",
                code="ray-nodes",
                patience=REGISTER_S,
            )
    if stray := sorted(set(alive) - set(pods)):
        return Waiting(reason=f"Ray still counts {', '.join(stray)}, where no pod is any more", code="ray-stray")
    for pod in ready.workers:
        offered = (alive[pod["status"]["podIP"]].get("resources_total") or {}).get(declared.worker_resource, 0)
        if int(offered) != declared.accelerators:
            return Waiting(
                reason=f"worker {pod['metadata']['name']} offers Ray {int(offered)} {declared.worker_resource}, "
                f"declared are {declared.accelerators}",
                code="ray-resources",
                patience=RESOURCE_S,
            )
    return None
