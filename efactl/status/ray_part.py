"""PURE: what Ray itself says of its nodes and resources."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from workload.head import Head
from workload.recorded_run import at, mappings, number, text

NODES = "/api/v0/nodes?limit=10000"
# A worker group holds its resources as one of these; what a plain task or actor holds is not told by the head.
PLACEMENT_GROUPS = "/api/v0/placement_groups?detail=1&limit=1000"
VERSION = "/api/version"


def rows(answer: Any) -> list[Mapping[str, Any]]:
    """The rows of a state API's answer."""
    return mappings(at(answer, "data", "result", "result"))


def ray_part(
    head: Head, *, version: Any, nodes: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """`resources` by name: the total over the nodes that are alive, and what placement groups reserve of it.

    `problem` says how that differs from what `head` was declared with.
    """
    alive = [node for node in nodes if node.get("state") == "ALIVE"]
    total: dict[str, float] = defaultdict(float)
    for node in alive:
        for name, value in (node.get("resources_total") or {}).items():
            if not _is_of_one_node(name):
                total[name] += number(value) or 0.0
    reserved: dict[str, float] = defaultdict(float)
    for group in groups:
        if group.get("state") == "CREATED":
            for bundle in mappings(group.get("bundles")):
                for name, value in (bundle.get("unit_resources") or {}).items():
                    reserved[name] += number(value) or 0.0
    runs = text(at(version, "ray_version"))
    return {
        "version": runs,
        "nodesAlive": len(alive),
        "nodesDead": len(nodes) - len(alive),
        "resources": {
            name: {"total": total[name], "reserved": reserved.get(name, 0.0)} for name in sorted(total, key=_order)
        },
        "problem": _problem(head, runs, alive, total),
    }


def _problem(
    head: Head, version: str | None, alive: Sequence[Mapping[str, Any]], total: Mapping[str, float]
) -> str | None:
    if version != head.ray_version:
        return f"the head runs Ray {version}, declared is {head.ray_version}"
    workers = sum(not node.get("is_head_node") for node in alive)
    if workers != head.nodes:
        return f"Ray counts {workers} of {head.nodes} worker nodes"
    if (offered := total.get(head.worker_resource, 0.0)) != head.accelerators:
        return f"the nodes offer Ray {offered:g} {head.worker_resource}, {head.accelerators} are declared"
    return None


def _is_of_one_node(name: str) -> bool:
    """Ray makes a resource of each node, and of what placement groups and labels name."""
    return name.startswith(("node:", "accelerator_type:")) or "_group_" in name


def _order(name: str) -> tuple[bool, bool, str]:
    """What ranks take first, bytes last."""
    return name.endswith("memory"), name == "CPU", name
