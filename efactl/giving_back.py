"""PURE: whether what a preview would change is the giving back of GPU nodes (gpuScaleToZeroAfterJob), and no more."""

from collections.abc import Mapping, Sequence
from typing import Any

from capacity.ended import is_gpu_group

_RESERVATION = ("delete", "aws:ec2/capacityReservation:CapacityReservation")
_GROUP = ("update", "aws:eks/nodeGroup:NodeGroup")
# What else goes with the nodes: the group's template no longer names the reservation, and no worker is waited for.
_BESIDE = (
    ("update", "aws:ec2/launchTemplate:LaunchTemplate"),
    ("update", "kubernetes:ray.io/v1:RayCluster"),
    ("delete", "ray-train-efa:infra:NodeReadiness"),
    ("delete", "pulumi-python:dynamic/infra:GpuNodesReady"),
    ("delete", "pulumi-python:dynamic/infra:RayClusterReady"),
)


def is_giving_back(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the steps (`metadata` of the engine's events) are that or, where it was cut short, the rest of it."""
    kinds = [(step["op"], step["type"]) for step in steps]
    if any(kind not in (_RESERVATION, _GROUP, *_BESIDE) for kind in kinds):
        return False
    groups = [step for step, kind in zip(steps, kinds, strict=True) if kind == _GROUP]
    if not all(is_gpu_group(one) and _nodes(one) == 0 for one in groups):
        return False
    return bool(groups) or _RESERVATION in kinds


def _nodes(group: Mapping[str, Any]) -> Any:
    """As many as it is to have; None where that is not said."""
    inputs = (group.get("new") or {}).get("inputs") or {}
    return (inputs.get("scalingConfig") or {}).get("desiredSize")
