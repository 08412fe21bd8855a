"""PURE: which pod is a RayCluster's head, or in words why there is none."""

from collections.abc import Mapping, Sequence
from typing import Any


def pods_of(cluster: str) -> str:
    """The label selector of a RayCluster's pods; KubeRay sets these labels."""
    return f"ray.io/cluster={cluster}"


def selector(cluster: str) -> str:
    """The label selector of the cluster's head pods."""
    return f"{pods_of(cluster)},ray.io/node-type=head"


def head_pod(pods: Sequence[Mapping[str, Any]]) -> str | None:
    """The name of the newest pod that runs and is not on its way out."""
    running = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running" and not _terminating(pod)]
    newest = max(running, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""), default=None)
    return str(newest["metadata"]["name"]) if newest else None


def why_no_head(pods: Sequence[Mapping[str, Any]], *, namespace: str, cluster: str) -> str:
    """What keeps each head pod there is from being one that runs."""
    if not pods:
        return f"no head pod: namespace {namespace} has none of RayCluster {cluster}"
    return "no head pod: " + "; ".join(f"{pod['metadata']['name']} {_state(pod)}" for pod in pods)


def _terminating(pod: Mapping[str, Any]) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _state(pod: Mapping[str, Any]) -> str:
    if _terminating(pod):
        return "is being deleted"
    status = pod.get("status", {})
    reasons = [
        waiting
        for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
        if (waiting := (container.get("state", {}).get("waiting") or {}))
    ] or [condition for condition in status.get("conditions") or [] if condition.get("status") == "False"]
    said = [": ".join(filter(None, (one.get("reason"), one.get("message")))) for one in reasons[:1]]
    return f"is {status.get('phase') or 'Pending'}" + "".join(f" ({text[:200]})" for text in said if text)
