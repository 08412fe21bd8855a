"""PURE: nodes, pods and the RayCluster, from the objects that an API server has of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from efactl.status.state import Declared
from infra.device_plugins import EFA, NVIDIA, offered
from infra.kubernetes_objects import Object, condition, described_node
from infra.ray_cluster_state import DeclaredCluster, PodsReady, SeenCluster, judge_pods
from infra.ray_pods import is_leaving, is_ready, parsed, pod_trouble, role


def nodes_part(
    nodes: Sequence[Object], selector: Mapping[str, str] | None, pods: Sequence[Object]
) -> list[dict[str, Any]]:
    """The stack's nodes by name: those its workers may use, and whatever else holds its pods.

    `selector` None: it is not known yet, and those that offer a device stand for the workers'.
    """
    holding = {str(pod["spec"].get("nodeName") or "") for pod in pods}
    own = [node for node in nodes if node["metadata"]["name"] in holding or _is_for_workers(node, selector)]
    return [_node(node) for node in sorted(own, key=lambda node: str(node["metadata"]["name"]))]


def _is_for_workers(node: Object, selector: Mapping[str, str] | None) -> bool:
    if selector is None:
        return any(offered(node, kind.resource) for kind in (NVIDIA, EFA))
    labels = node["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in selector.items())


def _node(node: Object) -> dict[str, Any]:
    said = described_node(node)
    ready = condition(node, "Ready")
    is_there = ready.get("status") == "True"
    cordoned = bool(node.get("spec", {}).get("unschedulable"))
    reason = "" if is_there else str(ready.get("message") or ready.get("reason") or "its kubelet has not reported yet")
    return {
        "name": said["name"],
        "instanceId": said["instance_id"] or None,
        "instanceType": said["instance_type"] or None,
        "zone": said["zone"] or None,
        "gpu": offered(node, NVIDIA.resource),
        "efa": offered(node, EFA.resource),
        "ready": is_there,
        "note": reason or ("cordoned" if cordoned else None),
    }


def pods_part(
    pods: Sequence[Object], events: Sequence[Object], *, unschedulable_seconds: float
) -> list[dict[str, Any]]:
    """The Ray cluster's pods, the head first; `problem` says what keeps one from being Ready."""
    since = [parsed(condition(pod, "Ready").get("lastTransitionTime")) for pod in pods if _is_ready_head(pod)]
    return [
        _pod(pod, events, unschedulable_seconds, max(since, default=None))
        for pod in sorted(pods, key=lambda pod: (role(pod) != "head", str(pod["metadata"]["name"])))
    ]


def _is_ready_head(pod: Object) -> bool:
    return role(pod) == "head" and is_ready(pod) and not is_leaving(pod)


def _pod(pod: Object, events: Sequence[Object], patience: float, head_since: Any) -> dict[str, Any]:
    trouble = pod_trouble(pod, events, unschedulable_seconds=patience, head_since=head_since)
    status = pod.get("status", {})
    phase = "Terminating" if is_leaving(pod) else str(status.get("phase") or "Pending")
    return {
        "name": pod["metadata"]["name"],
        "role": role(pod),
        "node": pod["spec"].get("nodeName") or None,
        "phase": phase,
        "ready": is_ready(pod) and not is_leaving(pod),
        "restarts": sum(int(one.get("restartCount") or 0) for one in status.get("containerStatuses") or []),
        "problem": trouble.reason if trouble and not is_leaving(pod) else None,
    }


def ray_cluster_part(declared: Declared, seen: SeenCluster, *, unschedulable_seconds: float) -> dict[str, Any]:
    """What KubeRay says, beside what is: a RayCluster may be `ready` while its pods are not."""
    found = seen.cluster or {}
    status = found.get("status") or {}
    uid = declared.uid or str((found.get("metadata") or {}).get("uid") or "")
    own = [pod for pod in seen.pods if _owner(pod) == uid and not is_leaving(pod)]
    judged = judge_pods(_to_judge(declared, uid, found, unschedulable_seconds), seen)
    return {
        "name": declared.name,
        "namespace": declared.namespace or None,
        "reported": {
            "state": status.get("state") or None,
            "availableWorkers": int(status.get("availableWorkerReplicas") or 0),
            "readyWorkers": int(status.get("readyWorkerReplicas") or 0),
            "desiredWorkers": int(status.get("desiredWorkerReplicas") or 0),
        }
        if found
        else None,
        "headReady": any(role(pod) == "head" and is_ready(pod) for pod in own),
        "workersReady": sum(role(pod) != "head" and is_ready(pod) for pod in own),
        "workersWanted": declared.workers,
        "problem": None if isinstance(judged, PodsReady) else judged.reason,
    }


def _to_judge(declared: Declared, uid: str, found: Object, unschedulable_seconds: float) -> DeclaredCluster:
    """As the wait for the cluster has it; what the state does not hold is taken from the cluster itself."""
    containers = (
        (found.get("spec") or {}).get("headGroupSpec", {}).get("template", {}).get("spec", {}).get("containers", [])
    )
    image = declared.image or str(next((one.get("image") for one in containers), ""))
    return DeclaredCluster(
        namespace=declared.namespace,
        name=declared.name,
        uid=uid,
        image=image,
        workers=declared.workers,
        accelerators=0,
        worker_resource="",
        ray_version=declared.ray_version,
        unschedulable_seconds=unschedulable_seconds,
    )


def _owner(pod: Object) -> str:
    owners = pod["metadata"].get("ownerReferences") or []
    return next((str(owner["uid"]) for owner in owners if owner["kind"] == "RayCluster"), "")
