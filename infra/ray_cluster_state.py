"""PURE: whether a Ray cluster is what was declared and answers, or what keeps it from that.

The RayCluster's own state proves nothing: `ready` can stand there while pods wait for a node (kuberay#2188), and
`RayClusterProvisioned` never becomes false again. So pods are counted, and then Ray's own nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from infra.kubernetes_objects import ZONE_LABEL, Object, condition, described_node, named
from infra.ray_cluster_drift import drift
from infra.ray_cluster_spec import HEAD_CONTAINER, WORKER_CONTAINER
from infra.ray_pods import is_leaving, is_ready, parsed, pod_trouble, refused_by_node, role, when
from infra.waiting import Failed, Waiting

OPERATOR_S, CREATION_S, MISSING_S, STALE_S, GONE_S = 50.0, 45.0, 120.0, 45.0, 20.0
# Within this the operator has tried again what was refused before.
RETRIED_S = 300.0
# The clocks of operator and API server may differ by this much, and those of API server and this machine by that.
CLOCK_SKEW, EARLIER = timedelta(seconds=5), timedelta(seconds=20)


@dataclass(frozen=True, kw_only=True)
class DeclaredCluster:
    """`uid` is the RayCluster's; `accelerators` counts a worker's `worker_resource`, as Ray names it.

    `waiting_since` is when this wait for it began.
    """

    namespace: str
    name: str
    uid: str
    image: str
    workers: int
    accelerators: int
    worker_resource: str
    ray_version: str
    unschedulable_seconds: float
    one_zone: bool = True
    waiting_since: datetime | None = None

    @property
    def named(self) -> str:
        return f"RayCluster {self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class SeenCluster:
    """The cluster's objects now. `cluster` None: there is none. `operators` None: this user may not look for them.

    `pods` carry the cluster's label, `events` are the namespace's Warnings, and what is said of its claims.
    """

    cluster: Object | None
    pods: Sequence[Object]
    events: Sequence[Object] = ()
    operators: Sequence[Object] | None = None


@dataclass(frozen=True, kw_only=True)
class PodsReady:
    """The head's pod and the workers', by name."""

    head: Object
    workers: tuple[Object, ...]

    @property
    def all(self) -> tuple[Object, ...]:
        return (self.head, *self.workers)


def judge_pods(declared: DeclaredCluster, seen: SeenCluster) -> PodsReady | Waiting | Failed:
    """Whether head and workers are Ready pods of this RayCluster, running the declared image."""
    cluster = seen.cluster
    if cluster is None:
        return Waiting(
            reason="there is no such RayCluster (any more): `pulumi up --refresh` declares it again",
            code="gone",
            patience=GONE_S,
        )
    if trouble := _cluster_trouble(declared, cluster, seen):
        return trouble
    own = [pod for pod in seen.pods if _owner(pod) == cluster["metadata"]["uid"] and not is_leaving(pod)]
    own.sort(key=lambda pod: (role(pod) != "head", str(pod["metadata"]["name"])))
    heads = [pod for pod in own if role(pod) == "head"]
    workers = [pod for pod in own if role(pod) != "head"]
    since = [parsed(condition(pod, "Ready").get("lastTransitionTime")) for pod in heads if is_ready(pod)]
    for pod in own:
        if other := _image_of(pod, declared.image):
            return Waiting(
                reason=f"{role(pod)} pod {pod['metadata']['name']} runs {other}, declared is {declared.image}: "
                "running pods do not follow a changed RayCluster (or an admission webhook rewrites images)",
                code="image",
                patience=STALE_S,
            )
    if failing := _replica_failure(cluster, declared.waiting_since):
        return failing
    troubles = [
        pod_trouble(
            pod,
            seen.events,
            unschedulable_seconds=declared.unschedulable_seconds,
            head_since=max(since, default=None),
        )
        for pod in own
    ]
    if trouble := _first([found for found in troubles if found]):
        return trouble
    if len(heads) != 1 or len(workers) != declared.workers:
        return _miscounted(declared, seen, cluster, len(heads), len(workers))
    return PodsReady(head=heads[0], workers=tuple(workers))


def judge_zone(declared: DeclaredCluster, ready: PodsReady, nodes: Mapping[str, Object]) -> Failed | None:
    """`nodes` by name, as far as they may be read: workers in more than one zone cannot use EFA."""
    if not declared.one_zone:
        return None
    zones: dict[str, list[str]] = {}
    for pod in ready.workers:
        if zone := _label(nodes, pod, ZONE_LABEL):
            zones.setdefault(zone, []).append(pod["metadata"]["name"])
    if len(zones) < 2:
        return None
    listed = "; ".join(f"{zone}: {', '.join(pods)}" for zone, pods in sorted(zones.items()))
    return Failed(reason=f"the workers stand in different zones ({listed}), and EFA does not leave one: set gpuZone")


def described_pod(pod: Object, nodes: Mapping[str, Object]) -> dict[str, str]:
    """A pod as the run record names it: what runs there, and on which machine."""
    name = HEAD_CONTAINER if role(pod) == "head" else WORKER_CONTAINER
    statuses: Sequence[Object] = pod["status"].get("containerStatuses", [])
    node = described_node(nodes.get(pod["spec"]["nodeName"], {"metadata": {"name": pod["spec"]["nodeName"]}}))
    return {
        "name": pod["metadata"]["name"],
        "role": role(pod),
        "node": node.pop("name"),
        **node,
        "image": next((one["image"] for one in pod["spec"]["containers"] if one["name"] == name), ""),
        "image_id": next((str(one.get("imageID", "")) for one in statuses if one["name"] == name), ""),
        "pod_ip": str(pod["status"].get("podIP", "")),
    }


def _cluster_trouble(declared: DeclaredCluster, cluster: Object, seen: SeenCluster) -> Waiting | Failed | None:
    metadata = cluster["metadata"]
    if metadata.get("deletionTimestamp"):
        return Waiting(reason="it is being deleted", code="leaving", patience=MISSING_S)
    if metadata["uid"] != declared.uid:
        return Waiting(
            reason=f"it is not the one that was declared, but was made anew at {metadata.get('creationTimestamp')}: "
            "`pulumi up --refresh` takes note",
            code="uid",
            patience=GONE_S,
        )
    differs = drift(cluster, image=declared.image, workers=declared.workers, ray_version=declared.ray_version)
    if differs:
        return Failed(reason=f"{'; '.join(differs)}; `pulumi up --refresh` puts it back")
    observed = cluster.get("status", {}).get("observedGeneration", 0)
    if observed >= metadata.get("generation", 1):
        return None
    for event in sorted(seen.events, key=when, reverse=True):
        about = event["involvedObject"].get("uid") == metadata["uid"]
        if about and event.get("reason", "").startswith("InvalidRayCluster") and _is_current(event, cluster):
            return Failed(reason=f"the KubeRay operator refuses it: {event['message']}")
    return Waiting(
        reason=f"the KubeRay operator has not taken it up: {_operator_state(declared, seen)}",
        code="operator",
        patience=OPERATOR_S,
    )


def _operator_state(declared: DeclaredCluster, seen: SeenCluster) -> str:
    if seen.operators is None:
        return (
            f"this user may not look at its Deployment; does it run, and does it watch namespace {declared.namespace}?"
        )
    if not seen.operators:
        return "no Deployment of it is in the cluster; install KubeRay"
    states = [
        f"Deployment {named(operator)} has {operator.get('status', {}).get('availableReplicas', 0)} of "
        f"{operator['spec'].get('replicas', 1)} replicas available"
        for operator in seen.operators
    ]
    if all(operator.get("status", {}).get("availableReplicas") for operator in seen.operators):
        states.append(f"does it watch namespace {declared.namespace}?")
    return "; ".join(states)


def _replica_failure(cluster: Object, waiting_since: datetime | None) -> Waiting | None:
    """Pods that the API server did not let the operator make (quota, LimitRange, admission) or delete.

    One from before this wait may be history: the operator tries again by itself, less and less often.
    """
    failure = condition(cluster, "ReplicaFailure")
    if failure.get("status") != "True":
        return None
    # Go joins the errors' texts with line ends: its own reason, then what the API server said.
    said = str(failure.get("message", "")).removeprefix(str(failure.get("reason", ""))).strip()
    refused = _not_created(str(failure.get("reason")), said)
    age = waiting_since - parsed(failure.get("lastTransitionTime")) if waiting_since else timedelta()
    return replace(refused, patience=RETRIED_S) if age > EARLIER else refused


def _not_created(reason: str, said: str) -> Waiting:
    remedy = ""
    if "exceeded quota" in said:
        remedy = ": raise the namespace's ResourceQuota, or ask for less (rayHeadCpu, rayWorkerCpu, ...)"
    elif "is forbidden" in said:
        remedy = ": the namespace's LimitRange or its admission policy must allow such a pod"
    return Waiting(
        reason=f"the KubeRay operator reports {reason}: {said}{remedy}", code="creation", patience=CREATION_S
    )


def _miscounted(declared: DeclaredCluster, seen: SeenCluster, cluster: Object, heads: int, workers: int) -> Waiting:
    """Too few or too many pods, and the best reason that is known."""
    missing = heads < 1 or workers < declared.workers
    gone = {pod["metadata"]["uid"] for pod in seen.pods}
    for event in sorted(seen.events, key=when, reverse=True):
        about = event["involvedObject"]
        if not missing or not _is_current(event, cluster):
            continue
        if about.get("uid") == cluster["metadata"]["uid"] and event.get("reason", "").startswith("FailedToCreate"):
            return _not_created(event["reason"], event["message"])
        own = about.get("kind") == "Pod" and about.get("name", "").startswith(f"{declared.name}-")
        if own and about.get("uid") not in gone and event.get("reason") in ("UnexpectedAdmissionError", "Evicted"):
            return refused_by_node(f"pod {about['name']}", event["reason"], event["message"])
    leaving = sorted(pod["metadata"]["name"] for pod in seen.pods if is_leaving(pod))
    counts = f"{heads} of 1 head pod and {workers} of {declared.workers} worker pods exist"
    if leaving:
        return Waiting(reason=f"{counts}; {', '.join(leaving)} is being deleted", code="leaving-pods")
    operators = seen.operators or ()
    down = [one for one in operators if not one.get("status", {}).get("availableReplicas")]
    if down:
        reason = f"{counts}: {_operator_state(declared, seen)}"
        return Waiting(reason=reason, code="operator", patience=OPERATOR_S)
    return Waiting(reason=counts, code="count", patience=MISSING_S)


def _first(troubles: Sequence[Waiting | Failed]) -> Waiting | Failed | None:
    """What is final, else what cannot last, else the first; the head's come first, since its workers follow from it."""

    def order(trouble: Waiting | Failed) -> int:
        return 0 if isinstance(trouble, Failed) else 1 if trouble.patience is not None else 2

    return min(troubles, key=order, default=None)


def _is_current(event: Object, cluster: Object) -> bool:
    """Whether it happened after the last change of the spec; events stay for an hour."""
    changes = [
        parsed(entry.get("time"))
        for entry in cluster["metadata"].get("managedFields", [])
        if entry.get("subresource") != "status" and "f:spec" in entry.get("fieldsV1", {})
    ]
    changed = max(changes, default=parsed(cluster["metadata"].get("creationTimestamp")))
    return when(event) >= changed - CLOCK_SKEW


def _owner(pod: Object) -> str:
    owners = pod["metadata"].get("ownerReferences", [])
    return next((str(owner["uid"]) for owner in owners if owner["kind"] == "RayCluster"), "")


def _image_of(pod: Object, declared: str) -> str:
    """The image of the pod's Ray container where it is another than the declared one, else empty."""
    name = HEAD_CONTAINER if role(pod) == "head" else WORKER_CONTAINER
    image = next((str(one["image"]) for one in pod["spec"]["containers"] if one["name"] == name), "no image")
    return "" if image == declared else image


def _label(nodes: Mapping[str, Object], pod: Object, label: str) -> str:
    node = nodes.get(pod["spec"].get("nodeName", ""), {})
    return str(node.get("metadata", {}).get("labels", {}).get(label, ""))
