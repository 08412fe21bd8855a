"""PURE: reading what every Kubernetes object has."""

from collections.abc import Mapping
from typing import Any

TYPE_LABEL, ZONE_LABEL = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"

Object = Mapping[str, Any]


def named(found: Object) -> str:
    return f"{found['metadata'].get('namespace', '')}/{found['metadata']['name']}"


def condition(found: Object, kind: str) -> Object:
    """The condition of that type of a node, pod or custom resource; empty where it was never set."""
    conditions: list[Object] = found.get("status", {}).get("conditions") or []
    return next((one for one in conditions if one.get("type") == kind), {})


def taint_text(taint: Object) -> str:
    """As kubectl writes it: key=value:effect."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def described_node(node: Object) -> dict[str, str]:
    """A node as the run record names it; the instance id is the last part of its provider id."""
    labels = node["metadata"].get("labels", {})
    return {
        "name": node["metadata"]["name"],
        "instance_id": str(node.get("spec", {}).get("providerID", "")).rpartition("/")[2],
        "instance_type": labels.get(TYPE_LABEL, ""),
        "zone": labels.get(ZONE_LABEL, ""),
    }
