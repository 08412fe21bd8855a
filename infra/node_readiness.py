"""PURE: whether the nodes of the workers are there and usable, or what keeps them from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from infra.device_plugins import EFA, NVIDIA, PluginKind, offered, provides, shut_out_by, untolerated
from infra.kubernetes_objects import TYPE_LABEL, Object, condition, named
from infra.ray_cluster_spec import ZONE_LABEL
from infra.waiting import LogOf, Waiting

# How long a hard fact may stand before it is believed: nodes and DaemonSets settle in the seconds after they appear.
SETTLE_S, REGISTER_S, RESTART_S, CORDON_S = 25.0, 60.0, 30.0, 120.0
PULL_S = 45.0
# CUDA 13.0, which the image is built for; KubeRay's command replaces the entry point that would load an older driver's
# compatibility libraries.
OLDEST_DRIVER = 580
DRIVER_LABEL = "nvidia.com/cuda.driver.major"
# Taints that come and go with the node's own start.
PASSING_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ebs.csi.aws.com/agent-not-ready",
    "efs.csi.aws.com/agent-not-ready",
    "fsx.csi.aws.com/agent-not-ready",
    "node.cilium.io/agent-not-ready",
    "karpenter.sh/unregistered",
)
PULL_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
NO_DRIVER_HINT = (
    "If it misses the NVML library or finds no device, the node has no NVIDIA driver: it needs an NVIDIA image "
    "(AL2023_x86_64_NVIDIA or BOTTLEROCKET_x86_64_NVIDIA on EKS)."
)


@dataclass(frozen=True, kw_only=True)
class NodePool:
    """What must be there: `nodes`, each offering exactly `gpus` and `efa`, in `zone` if given, in one zone with EFA.

    `tolerations` are those of the worker pods.
    """

    nodes: int
    selector: Mapping[str, str]
    zone: str
    instance_type: str
    gpus: int
    efa: int
    tolerations: Sequence[Object] = ()

    @property
    def plugins(self) -> list[tuple[PluginKind, int]]:
        """The devices that each node must offer, and how many."""
        return [(kind, count) for kind, count in ((NVIDIA, self.gpus), (EFA, self.efa)) if count]


@dataclass(frozen=True, kw_only=True)
class SeenNodes:
    """The cluster now. None where this user may not look; `slices` are ResourceSlices, empty where none are served.

    `plugin_pods` holds, by namespace/name of a DaemonSet, its pods.
    """

    nodes: Sequence[Object] | None
    daemonsets: Sequence[Object] | None = None
    plugin_pods: Mapping[str, Sequence[Object]] | None = None
    slices: Sequence[Object] = ()


@dataclass(frozen=True, kw_only=True)
class NodesReady:
    """The nodes of one zone that fit, by name; none, with a reason, where this user may not look at nodes."""

    zone: str
    nodes: tuple[Object, ...]
    skipped: str = ""


def selected(pool: NodePool, nodes: Sequence[Object]) -> list[Object]:
    """The nodes that carry the pool's labels, in order of their names."""
    chosen = [
        node
        for node in nodes
        if all(node["metadata"].get("labels", {}).get(key) == value for key, value in pool.selector.items())
    ]
    return sorted(chosen, key=lambda node: str(node["metadata"]["name"]))


def judge(pool: NodePool, seen: SeenNodes) -> NodesReady | Waiting:
    """Ready, or what is in the way: devices offered twice, then what ails a node, then how many there are and where."""
    if seen.nodes is None:
        return NodesReady(zone=pool.zone, nodes=(), skipped="this user may not look at nodes")
    nodes = selected(pool, seen.nodes)
    for kind, _ in pool.plugins:
        if doubled := _doubled(kind, nodes, seen):
            return doubled
    troubles = {node["metadata"]["name"]: _node_trouble(pool, node, seen) for node in nodes}
    fitting = [node for node in nodes if troubles[node["metadata"]["name"]] is None]
    zones = _by_zone(fitting) if pool.zone or pool.efa else {"": fitting}
    for zone, members in sorted(zones.items(), key=lambda found: (-len(found[1]), found[0])):
        if len(members) >= pool.nodes and pool.zone in ("", zone):
            return NodesReady(zone=zone, nodes=tuple(members))
    trouble = _first(troubles)
    if len(nodes) < pool.nodes and (trouble is None or trouble.patience is None):
        labels = ",".join(f"{key}={value}" for key, value in pool.selector.items())
        chosen = f"nodes with the labels {labels}" if labels else "nodes"
        return Waiting(reason=f"{len(nodes)} of {pool.nodes} {chosen} have joined the cluster", code="nodes")
    return trouble or _zone_trouble(pool, zones)


def _first(troubles: Mapping[str, Waiting | None]) -> Waiting | None:
    """The trouble that can end the wait soonest: a node that is still starting must not hide what never ends."""
    found = [trouble for trouble in troubles.values() if trouble]
    return min(found, key=lambda trouble: (trouble.patience is None, trouble.patience or 0.0), default=None)


def _zone_trouble(pool: NodePool, zones: Mapping[str, Sequence[Object]]) -> Waiting:
    counts = ", ".join(f"{zone or 'no zone'}: {len(members)}" for zone, members in sorted(zones.items()))
    where = f"zone {pool.zone}" if pool.zone else "one zone"
    return Waiting(
        reason=f"{pool.nodes} nodes are needed in {where} (EFA does not leave a zone); those that are ready: {counts}",
        code="zone",
        patience=CORDON_S,
    )


def _node_trouble(pool: NodePool, node: Object, seen: SeenNodes) -> Waiting | None:
    name = node["metadata"]["name"]
    ready = condition(node, "Ready")
    if ready.get("status") != "True":
        said = ready.get("message") or ready.get("reason") or "its kubelet has not reported yet"
        return Waiting(reason=f"node {name} is not Ready: {said.rstrip('.')}", code=f"not-ready:{name}")
    if node.get("spec", {}).get("unschedulable"):
        return Waiting(
            reason=f"node {name} is cordoned (kubectl uncordon {name})", code=f"cordon:{name}", patience=CORDON_S
        )
    for taint in untolerated(node, pool.tolerations):
        passing = taint.startswith(PASSING_TAINTS)
        return Waiting(
            reason=f"node {name} has the taint {taint}, which the Ray workers do not tolerate"
            + ("" if passing else ": remove it, or choose other nodes with gpuNodeSelector"),
            code=f"taint:{name}",
            patience=None if passing else SETTLE_S,
        )
    driver = node["metadata"].get("labels", {}).get(DRIVER_LABEL, "")
    if pool.gpus and driver.isdigit() and int(driver) < OLDEST_DRIVER:
        return Waiting(
            reason=f"node {name} has NVIDIA driver {driver}, CUDA 13 needs {OLDEST_DRIVER} or newer: "
            "use a newer node image",
            code=f"driver:{name}",
            patience=SETTLE_S,
        )
    for kind, count in pool.plugins:
        if offered(node, kind.resource) != count and (trouble := _device_trouble(pool, kind, count, node, seen)):
            return trouble
    return None


def _device_trouble(pool: NodePool, kind: PluginKind, count: int, node: Object, seen: SeenNodes) -> Waiting:
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


def _doubled(kind: PluginKind, nodes: Sequence[Object], seen: SeenNodes) -> Waiting | None:
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


def _by_zone(nodes: Sequence[Object]) -> dict[str, list[Object]]:
    zones: dict[str, list[Object]] = {}
    for node in nodes:
        zones.setdefault(node["metadata"].get("labels", {}).get(ZONE_LABEL, ""), []).append(node)
    return zones
