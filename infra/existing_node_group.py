"""PURE: a managed node group that is there already, as its own answer has it, against what the job needs of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.eks_settings import GpuNodesSettings
from infra.ray_cluster_spec import GPU

# With an NVIDIA driver and EFA; AL2's driver is too old for CUDA 13. CUSTOM (an AMI of the template) may have them.
_AMI_TYPES = ("AL2023_x86_64_NVIDIA", "BOTTLEROCKET_x86_64_NVIDIA", "BOTTLEROCKET_x86_64_NVIDIA_FIPS", "CUSTOM")
# As EKS calls them; the third, PREFER_NO_SCHEDULE, keeps nobody out.
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute"}
_REMEDIES = {
    "CREATING": "wait until it is ACTIVE",
    "UPDATING": "wait until it is ACTIVE",
    "DELETING": "name another",
    "DELETE_FAILED": "name another",
    "CREATE_FAILED": "delete it and make it again, or name another",
}


@dataclass(frozen=True, kw_only=True)
class TaintFacts:
    """`effect` as EKS writes it: NO_SCHEDULE, NO_EXECUTE or PREFER_NO_SCHEDULE."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, kw_only=True)
class NodeGroupFacts:
    """`instance_types` is empty where the group's launch template has the type; `zones` are those of its subnets."""

    name: str
    cluster: str
    status: str
    instance_types: tuple[str, ...]
    ami_type: str
    labels: Mapping[str, str]
    taints: tuple[TaintFacts, ...]
    zones: tuple[str, ...]
    desired: int
    largest: int

    @classmethod
    def of(cls, found: Any, *, zones: Sequence[str]) -> "NodeGroupFacts":
        """From the answer of aws.eks.get_node_group, and the zones of its subnets."""
        [sizes] = found.scaling_configs
        return cls(
            name=found.node_group_name,
            cluster=found.cluster_name,
            status=found.status,
            instance_types=tuple(found.instance_types or ()),
            ami_type=found.ami_type,
            labels=dict(found.labels or {}),
            taints=tuple(
                TaintFacts(key=taint.key, value=taint.value or "", effect=taint.effect) for taint in found.taints or ()
            ),
            zones=tuple(sorted(set(zones))),
            desired=int(sizes.desired_size),
            largest=int(sizes.max_size),
        )


def problems(group: NodeGroupFacts, gpu: GpuNodesSettings, *, zone: str) -> list[str]:
    """Sentences, each with what is wrong and what to do about it; empty when the job can have its nodes of `group`."""
    lines = [
        *_status_problems(group),
        *_node_problems(group, gpu),
        *_taint_problems(group),
        *_zone_problems(group, gpu, zone),
        *_size_problems(group, gpu.nodes),
    ]
    return [f"node group {group.name} {line}" for line in lines]


def _status_problems(group: NodeGroupFacts) -> list[str]:
    if group.status == "ACTIVE":
        return []
    shown = f"aws eks describe-nodegroup --cluster-name {group.cluster} --nodegroup-name {group.name} says why"
    return [f"is {group.status}: {_REMEDIES.get(group.status, shown)}"]


def _node_problems(group: NodeGroupFacts, gpu: GpuNodesSettings) -> list[str]:
    lines = []
    wanted = gpu.instance.name
    if group.instance_types and group.instance_types != (wanted,):
        lines.append(
            f"is of {', '.join(group.instance_types)}, and every worker asks for what {wanted} has: set "
            "gpuInstanceType to the one type of a group"
        )
    if group.ami_type not in _AMI_TYPES:
        lines.append(f"has AMI type {group.ami_type}, which lacks the driver: name one of {_AMI_TYPES[0]}")
    wrong = {key: value for key, value in gpu.labels.items() if group.labels.get(key) != value}
    if wrong:
        missing = ", ".join(f"{key}={value}" for key, value in sorted(wrong.items()))
        lines.append(
            f"does not label its nodes {missing}: {_update(group, f'--labels addOrUpdateLabels={{{missing}}}')}, or "
            "set gpuNodeSelector to labels that it has"
        )
    return lines


def _taint_problems(group: NodeGroupFacts) -> list[str]:
    """Workers and device plugins tolerate one taint."""
    strange = [
        taint
        for taint in group.taints
        if taint.effect in _EFFECTS and (taint.key, taint.effect) != (GPU, "NO_SCHEDULE")
    ]
    return [
        f"has taint {taint.key}{'=' if taint.value else ''}{taint.value}:{_EFFECTS[taint.effect]}, which no worker "
        f"tolerates: {_update(group, f'--taints removeTaints=[{{key={taint.key},effect={taint.effect}}}]')}"
        for taint in strange
    ]


def _zone_problems(group: NodeGroupFacts, gpu: GpuNodesSettings, zone: str) -> list[str]:
    if zone and zone not in group.zones:
        return [f"has subnets in {', '.join(group.zones)}, not in gpuZone {zone}: set gpuZone, or name another group"]
    if gpu.instance.efa_interfaces and len(group.zones) > 1:
        return [
            f"has subnets in {', '.join(group.zones)}, and EFA does not leave a zone: name a group of one zone's subnet"
        ]
    return []


def _size_problems(group: NodeGroupFacts, nodes: int) -> list[str]:
    if group.desired >= nodes:
        return []
    sizes = f"desiredSize={nodes}" if group.largest >= nodes else f"maxSize={nodes},desiredSize={nodes}"
    remedy = _update(group, f"--scaling-config {sizes}")
    return [f"has {group.desired} nodes, gpuNodes is {nodes}: {remedy}, or set gpuNodes"]


def _update(group: NodeGroupFacts, what: str) -> str:
    return f"aws eks update-nodegroup-config --cluster-name {group.cluster} --nodegroup-name {group.name} {what}"
