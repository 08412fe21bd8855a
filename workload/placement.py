"""Where a run's pods were: read again at its end, since a pod may have been replaced meanwhile."""

from collections.abc import Mapping, Sequence
from typing import Any

from workload.head import Head
from workload.head_pod import pods_of
from workload.kubernetes_access import KubernetesError
from workload.kubernetes_api import KubernetesApi

RAY_CONTAINERS = ("ray-head", "ray-worker")


def at_the_end(head: Head, before: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """`before` (RayClusterReady's pods) with the pods that have come since; as it is where none can be read.

    A pod that came on a node known from `before` has that node's zone and type.
    """
    if head.kind != "kubernetes":
        return list(before)
    path = f"/api/v1/namespaces/{head.namespace}/pods"
    try:
        found = KubernetesApi(head.access).get(
            path, doing=f"listing the pods of {head.named}", labelSelector=pods_of(head.cluster_name)
        )
    except KubernetesError:
        return list(before)
    return merged(before, found["items"])


def merged(before: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    known = {pod["name"] for pod in before}
    machines = {
        pod.get("node"): {key: pod.get(key) for key in ("zone", "instance_type", "instance_id")} for pod in before
    }
    since = [pod for pod in pods if pod["metadata"]["name"] not in known]
    return [*before, *(_described(pod, machines) for pod in since)]


def _described(pod: Mapping[str, Any], machines: Mapping[Any, Mapping[str, Any]]) -> Mapping[str, Any]:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    ray: Mapping[str, Any] = next((one for one in statuses if one["name"] in RAY_CONTAINERS), {})
    node = pod["spec"].get("nodeName", "")
    return {
        "name": pod["metadata"]["name"],
        "role": pod["metadata"].get("labels", {}).get("ray.io/node-type", ""),
        "node": node,
        **machines.get(node, {}),
        "image": ray.get("image", ""),
        "image_id": ray.get("imageID", ""),
        "pod_ip": pod.get("status", {}).get("podIP", ""),
    }
