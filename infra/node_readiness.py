"""PURE: whether the nodes of the workers are there and usable, or what keeps them from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.device_plugins import offered, untolerated
from infra.device_readiness import SETTLE_S, device_trouble, doubled
from infra.kubernetes_objects import ZONE_LABEL, Object, condition
from infra.node_pool import NodePool, SeenNodes
from infra.waiting import Waiting

CORDON_S = 120.0
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
        if twice := doubled(kind, nodes, seen):
            return twice
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
        if offered(node, kind.resource) != count and (trouble := device_trouble(pool, kind, count, node, seen)):
            return trouble
    return None


def _by_zone(nodes: Sequence[Object]) -> dict[str, list[Object]]:
    zones: dict[str, list[Object]] = {}
    for node in nodes:
        zones.setdefault(node["metadata"].get("labels", {}).get(ZONE_LABEL, ""), []).append(node)
    return zones
