"""PURE: why a node does not offer its devices: what its device plugin does, or why there is none."""

from collections.abc import Sequence
from dataclasses import replace

from infra.device_plugins import EFA, NVIDIA, PluginKind, offered, provides, shut_out_by
from infra.kubernetes_objects import TYPE_LABEL, Object, condition, named
from infra.node_pool import NodePool, SeenNodes
from infra.waiting import LogOf, Waiting

# How long a hard fact may stand before it is believed: nodes and DaemonSets settle in the seconds after they appear.
SETTLE_S, REGISTER_S, RESTART_S = 25.0, 60.0, 30.0
PULL_S = 45.0
PULL_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
NO_DRIVER_HINT = (
    "If it misses the NVML library or finds no device, the node has no NVIDIA driver: it needs an NVIDIA image "
    "(AL2023_x86_64_NVIDIA or BOTTLEROCKET_x86_64_NVIDIA on EKS)."
)


def device_trouble(pool: NodePool, kind: PluginKind, count: int, node: Object, seen: SeenNodes) -> Waiting:
    name = node["metadata"]["name"]
    code = f"{kind.resource}:{name}"
    have = offered(node, kind.resource)
    if have:
        there = node["metadata"].get("labels", {}).get(TYPE_LABEL, "")
        other = f"; it is a {there}, gpuInstanceType is {pool.instance_type}" if there != pool.instance_type else ""
        return Waiting(
            reason=f"node {name} offers {have} {kind.resource}, {count} are expected of {pool.instance_type}{other}",
            code=code,
            patience=REGISTER_S,
        )
    missing = f"node {name} offers no {kind.resource}"
    if seen.daemonsets is None:
        return Waiting(reason=f"{missing} yet (this user may not look at its device plugin)", code=code)
    plugins = [daemonset for daemonset in seen.daemonsets if provides(daemonset, kind)]
    if kind is EFA and not plugins and (driver := _efa_driver(seen.slices)):
        return Waiting(
            reason=f"{missing}: EFA is managed by the DRA driver {driver} (ResourceSlices) here, and pods that ask for "
            f"{kind.resource} find none; replace the driver by the EFA device plugin, never run both",
            code=code,
            patience=SETTLE_S,
        )
    if not plugins:
        return Waiting(
            reason=f"{missing}, and no DaemonSet of an {kind.title} exists: set {kind.setting} to auto or install"
            + (", or gpuEfa to false where the nodes have none" if kind is EFA else ""),
            code=code,
            patience=REGISTER_S,
        )
    # A cluster may have one plugin a node pool: the one for this node is that which runs here, or may.
    plugins.sort(key=lambda plugin: (not _runs_on(plugin, node, seen), bool(shut_out_by(plugin, node))))
    return _plugin_trouble(kind, plugins[0], node, missing, seen)


def _plugin_trouble(kind: PluginKind, plugin: Object, node: Object, missing: str, seen: SeenNodes) -> Waiting:
    name = node["metadata"]["name"]
    code = f"{kind.resource}:{name}"
    status = plugin.get("status", {})
    if status.get("observedGeneration", 0) < plugin["metadata"].get("generation", 0):
        return Waiting(reason=f"{missing}: DaemonSet {named(plugin)} has just been made", code=code)
    pods = (seen.plugin_pods or {}).get(named(plugin))
    here = [pod for pod in pods or () if _meant_for(pod) == name]
    if not here:
        why = shut_out_by(plugin, node)
        if why:
            desired = status.get("desiredNumberScheduled", 0)
            counted = f"{status.get('numberReady', 0)}/{desired} ready"
            return Waiting(
                reason=f"{missing}: DaemonSet {named(plugin)} ({counted}) makes no pod for it, since {why}",
                code=code,
                patience=SETTLE_S,
            )
        if pods is None:
            return Waiting(
                reason=f"{missing} yet (this user may not look at the pods of DaemonSet {named(plugin)})", code=code
            )
        return Waiting(
            reason=f"{missing}: DaemonSet {named(plugin)} has not made its pod yet", code=code, patience=REGISTER_S
        )
    return _pod_trouble(here[0], missing, code)


def _pod_trouble(pod: Object, missing: str, code: str) -> Waiting:
    """What the plugin's pod on the node does instead of registering the device."""
    who = f"{missing}: pod {named(pod)}"
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return Waiting(reason=f"{who} cannot start: {scheduled.get('message', '')}", code=code, patience=SETTLE_S)
    for status in pod.get("status", {}).get("containerStatuses", []):
        log = LogOf(
            namespace=pod["metadata"]["namespace"],
            pod=pod["metadata"]["name"],
            container=status["name"],
            hint=NO_DRIVER_HINT if code.startswith(NVIDIA.resource) else "",
        )
        waiting = status.get("state", {}).get("waiting", {})
        if waiting.get("reason") in PULL_REASONS:
            said = waiting.get("message") or waiting["reason"]
            return Waiting(reason=f"{who} cannot pull {status['image']}: {said}", code=f"{code}:pull", patience=PULL_S)
        ended = status.get("state", {}).get("terminated") or status.get("lastState", {}).get("terminated")
        if ended and not status.get("ready"):
            return Waiting(
                reason=f"{who} ended with exit code {ended.get('exitCode')} ({status.get('restartCount', 0)} restarts)",
                code=f"{code}:crash",
                patience=RESTART_S,
                log=replace(log, previous=not status.get("state", {}).get("terminated")),
            )
        if "running" in status.get("state", {}):
            return Waiting(
                reason=f"{who} runs and has registered none",
                code=f"{code}:unregistered",
                patience=REGISTER_S,
                log=log,
            )
    return Waiting(reason=f"{who} is {pod.get('status', {}).get('phase', 'Pending')}", code=f"{code}:starting")


def doubled(kind: PluginKind, nodes: Sequence[Object], seen: SeenNodes) -> Waiting | None:
    """Two plugins of one device register over each other; which of them a kubelet listens to is chance."""
    plugins = [daemonset for daemonset in seen.daemonsets or () if provides(daemonset, kind)]
    for node in nodes:
        here = [named(plugin) for plugin in plugins if _runs_on(plugin, node, seen)]
        if len(here) > 1:
            return Waiting(
                reason=f"node {node['metadata']['name']} has {len(here)} device plugins for {kind.resource} "
                f"(DaemonSets {' and '.join(here)}): remove one (set {kind.setting} to existing where it is ours)",
                code=f"doubled:{kind.resource}",
                patience=SETTLE_S,
            )
    return None


def _runs_on(plugin: Object, node: Object, seen: SeenNodes) -> bool:
    pods = (seen.plugin_pods or {}).get(named(plugin))
    if pods is not None:
        return any(_meant_for(pod) == node["metadata"]["name"] for pod in pods)
    return plugin.get("status", {}).get("desiredNumberScheduled", 0) > 0 and not shut_out_by(plugin, node)


def _meant_for(pod: Object) -> str:
    """The node of a DaemonSet's pod: bound to it, or, while the scheduler refuses, the one its affinity names."""
    if bound := pod["spec"].get("nodeName"):
        return str(bound)
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    return next((str(field["values"][0]) for term in terms for field in term.get("matchFields", [])), "")


def _efa_driver(slices: Sequence[Object]) -> str:
    """The DRA driver that publishes EFA devices, if one does."""
    for found in slices:
        driver = str(found.get("spec", {}).get("driver", ""))
        if any(word in str(found.get("spec", {})).lower() for word in ("efa", "dranet")):
            return driver
    return ""
