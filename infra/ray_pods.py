"""PURE: what keeps one pod of a Ray cluster from being Ready."""

from collections.abc import Sequence
from datetime import UTC, datetime

from infra.kubernetes_objects import Object, condition
from infra.waiting import Failed, LogOf, Waiting

PULL_REASONS = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable")
HOPELESS_REASONS = ("InvalidImageName", "ErrImageNeverPull")
CONFIG_REASONS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError")
# A kubelet pulls again 10 s after a failure, and 20 s after the next: this spans the first retry.
PULL_S = 25.0
# A registry that is busy, or a network that is not up yet, is worth more than one retry.
PASSING_PULL = ("toomanyrequests", "429", "QPS exceeded", "timeout", "connection re", "handshake", "503", "502", "EOF")
PASSING_PULL_S = 240.0
# From the first end of a container: time for the kubelet's first two restarts, 10 s and 20 s apart.
CRASH_LOOP_S = 25.0
CONFIG_S, MOUNT_S, SLOW_MOUNT_S, ADMISSION_S = 30.0, 45.0, 240.0, 45.0
GCS_S = 240.0
# What a probe says of a Ray that is still starting is no news.
STARTING_S = 30.0
WAIT_FOR_GCS = "wait-gcs-ready"


def role(pod: Object) -> str:
    return str(pod["metadata"].get("labels", {}).get("ray.io/node-type", "worker"))


def is_ready(pod: Object) -> bool:
    return condition(pod, "Ready").get("status") == "True"


def is_leaving(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def pod_trouble(
    pod: Object, events: Sequence[Object], *, unschedulable_seconds: float, head_since: datetime | None
) -> Waiting | Failed | None:
    """None for a Ready pod. `events` are the Warnings of its namespace; `head_since`: since when the head is Ready."""
    if is_ready(pod):
        return None
    name = pod["metadata"]["name"]
    who = f"{role(pod)} pod {name}"
    status = pod.get("status", {})
    if status.get("phase") == "Failed":
        return refused_by_node(who, str(status.get("reason", "Failed")), str(status.get("message", "")))
    if not pod["spec"].get("nodeName"):
        return _unscheduled(pod, who, events, unschedulable_seconds)
    where = f"{who} on node {pod['spec']['nodeName']}"
    containers = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    for container in containers:
        if found := _container_trouble(pod, where, container, head_since):
            return found
    started = [container for container in containers if "running" in container.get("state", {})]
    if not started:
        return _not_started(where, name, _last_warning(pod, events, probes=False))
    warning = _last_warning(pod, events, probes=True)
    since = max(parsed(container["state"]["running"].get("startedAt")) for container in started)
    if warning and (when(warning) - since).total_seconds() < STARTING_S:
        return Waiting(reason=f"{where} is starting Ray", code=f"starting:{name}")
    said = f": {warning['message']}" if warning else f" ({condition(pod, 'Ready').get('message', 'not probed yet')})"
    return Waiting(reason=f"{where} runs, but is not Ready{said}", code=f"unready:{name}")


def refused_by_node(who: str, reason: str, message: str) -> Waiting:
    """A pod that a kubelet ended or did not admit; KubeRay makes another in its place."""
    return Waiting(reason=f"{who} was refused: {reason}: {message}", code=f"refused:{reason}", patience=ADMISSION_S)


def when(event: Object) -> datetime:
    """When an event last happened."""
    stamps = (event.get("series") or {}).get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime")
    return parsed(next((stamp for stamp in stamps if stamp), event["metadata"].get("creationTimestamp")))


def parsed(stamp: str | None) -> datetime:
    return datetime.fromisoformat(stamp) if stamp else datetime.min.replace(tzinfo=UTC)


def _unscheduled(pod: Object, who: str, events: Sequence[Object], patience: float) -> Waiting:
    scheduled = condition(pod, "PodScheduled")
    message = scheduled.get("message", "")
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes", [])
        if "persistentVolumeClaim" in volume
    ]
    about = [
        f"volume claim {event['involvedObject']['name']}: {event['message']}"
        for event in sorted(events, key=when)
        if event["involvedObject"].get("kind") == "PersistentVolumeClaim" and event["involvedObject"]["name"] in claims
    ]
    said = "; ".join(filter(None, [message, *about[-1:]])) or "no scheduler has looked at it"
    reason = f"{who} has no node: {said} (kubeUnschedulableSeconds {patience:g})"
    return Waiting(reason=reason, code=f"unscheduled:{role(pod)}", patience=patience)


def _container_trouble(
    pod: Object, where: str, container: Object, head_since: datetime | None
) -> Waiting | Failed | None:
    name = pod["metadata"]["name"]
    state = container.get("state", {})
    waiting = state.get("waiting", {})
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    image = container.get("image", "")
    if reason in HOPELESS_REASONS:
        return Failed(reason=f"{where} cannot pull {image}: {reason}: {message}")
    if reason in PULL_REASONS:
        passing = any(word in message for word in PASSING_PULL)
        return Waiting(
            reason=f"{where} cannot pull {image}: {message or reason}",
            code=f"pull:{name}",
            patience=PASSING_PULL_S if passing else PULL_S,
        )
    if reason in CONFIG_REASONS:
        return Waiting(reason=f"{where} cannot start: {reason}: {message}", code=f"config:{name}", patience=CONFIG_S)
    ended = state.get("terminated") or container.get("lastState", {}).get("terminated")
    if ended and not container.get("ready") and not (state.get("terminated") and ended.get("exitCode") == 0):
        if _lost_its_head(pod, ended, head_since):
            return _ended_with_head(pod, where, container, ended)
        return _crash(pod, where, container, ended)
    if container["name"] == WAIT_FOR_GCS and "running" in state:
        said = "waits for the head's GCS"
        if head_since is None:
            return Waiting(reason=f"{where} {said}", code="gcs")
        return Waiting(
            reason=f"{where} {said}, and the head is Ready",
            code="gcs-unreachable",
            patience=GCS_S,
            log=LogOf(
                namespace=pod["metadata"]["namespace"],
                pod=name,
                container=WAIT_FOR_GCS,
                hint="Is the head's Service resolved there, and do NetworkPolicies let the pods reach each other?",
            ),
        )
    return None


def _crash(pod: Object, where: str, container: Object, ended: Object) -> Waiting:
    """Running again, it may come right; ending again, it will not."""
    state = container.get("state", {})
    reason = ended.get("reason", "Error")
    cause = f"exit code {ended.get('exitCode')} ({reason})"
    restarts = container.get("restartCount", 0)
    running = "running" in state
    did = f"ended with {cause}" if not running else f"runs again (restart {restarts}) after it ended with {cause}"
    hint = f"; its memory limit is {_memory_limit(pod, container['name'])}" if reason == "OOMKilled" else ""
    return Waiting(
        reason=f"{where}: container {container['name']} {did}{hint}",
        code=f"crash:{pod['metadata']['name']}",
        patience=None if running else CRASH_LOOP_S,
        log=LogOf(
            namespace=pod["metadata"]["namespace"],
            pod=pod["metadata"]["name"],
            container=container["name"],
            previous="terminated" not in state,
        ),
    )


def _lost_its_head(pod: Object, ended: Object, head_since: datetime | None) -> bool:
    """Ray's worker nodes end when their head has been gone for a minute."""
    if role(pod) == "head" or ended.get("reason") == "OOMKilled":
        return False
    return head_since is None or parsed(ended.get("finishedAt")) <= head_since


def _ended_with_head(pod: Object, where: str, container: Object, ended: Object) -> Waiting:
    """No fault of the worker's, and no reason to give it up: a kubelet starts it again, in up to 5 minutes."""
    did = "starts again" if "running" in container.get("state", {}) else "waits to be started again"
    return Waiting(
        reason=f"{where}: container {container['name']} {did}: it ended (exit code {ended.get('exitCode')}) "
        "while no head was Ready",
        code=f"headless:{pod['metadata']['name']}",
    )


def _memory_limit(pod: Object, container: str) -> str:
    for spec in pod["spec"].get("containers", []):
        if spec["name"] == container:
            return str(spec.get("resources", {}).get("limits", {}).get("memory", "no"))
    return "no"


def _not_started(where: str, name: str, warning: Object | None) -> Waiting:
    if warning is None:
        return Waiting(reason=f"{where} is being started (image, volumes)", code=f"starting:{name}")
    reason, message = str(warning.get("reason", "")), str(warning.get("message", ""))
    patience = None
    if reason in ("FailedMount", "FailedAttachVolume", "FailedMapVolume"):
        # A Secret or claim that does not exist stays so; a volume that is attached elsewhere is let go in time.
        patience = MOUNT_S if "not found" in message else SLOW_MOUNT_S
    elif reason == "FailedCreatePodSandBox":
        patience = SLOW_MOUNT_S
    return Waiting(reason=f"{where} cannot start: {reason}: {message}", code=f"start:{name}", patience=patience)


def _last_warning(pod: Object, events: Sequence[Object], *, probes: bool) -> Object | None:
    """The last one of its probes, or the last one of anything else."""
    own = [
        event
        for event in events
        if event["involvedObject"].get("uid") == pod["metadata"]["uid"]
        and (event.get("reason") == "Unhealthy") is probes
    ]
    return max(own, key=when, default=None)
