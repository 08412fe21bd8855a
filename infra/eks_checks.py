"""PURE: what stands in the way of an EKS stack, from its settings and what AWS says, before anything is declared."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from infra import versions
from infra.aws_facts import AwsFacts
from infra.eks_admins import is_caller
from infra.eks_settings import EksSettings, end_of
from infra.existing_node_group import problems as group_problems
from infra.zones import offering

# Bring-up takes a quarter of an hour, and EC2 ends a reservation within an hour of its end.
_SHORTEST_RESERVATION = timedelta(hours=1)
_LONG_RESERVATION = timedelta(days=14)


def problems(facts: AwsFacts, settings: EksSettings) -> list[str]:
    """Sentences, each with what is wrong and what to do about it; empty when the stack may be declared."""
    return [
        *_account_problems(facts, settings),
        *_instance_problems(facts, settings),
        *_cluster_problems(facts, settings),
        *(group_problems(facts.group, settings.gpu, zone=settings.gpu.zone) if facts.group else []),
    ]


def notes(settings: EksSettings, *, now: datetime) -> list[str]:
    """What is worth saying of a stack that may be declared."""
    capacity, ttl = settings.capacity, settings.guards.ttl_until
    if ttl and settings.gpu.nodes and end_of(ttl) - now < _SHORTEST_RESERVATION:
        return [f"ttlUntil {ttl} is less than an hour away: the GPU nodes may end during bring-up"]
    if capacity.mode != "reserve" or not settings.gpu.nodes or not capacity.until:
        return []
    left = end_of(capacity.until) - now
    until = f"{'ttlUntil' if capacity.until == ttl else 'capacityUntil'} {capacity.until}"
    if left <= timedelta():
        return [
            f"capacityUntil {capacity.until} has passed: nothing is reserved any more. GPU nodes that run go on, and "
            "one that is lost is not replaced: set a later time, or capacity: none; either launches them anew. AWS "
            "cannot cancel what it has ended: run with --refresh (efactl does)"
        ]
    if left > _LONG_RESERVATION:
        return [
            f"{until} is {left.days} days away: until then the reservation bills like its "
            "nodes, also where an `up` or a destroy stops half-way; a nearer time costs less then"
        ]
    if left < _SHORTEST_RESERVATION:
        return [f"capacityUntil {capacity.until} is less than an hour away: the reservation may end during bring-up"]
    return []


def _account_problems(facts: AwsFacts, settings: EksSettings) -> list[str]:
    lines = []
    allowed = settings.aws.allowed_account_ids
    if allowed and facts.account not in allowed:
        lines.append(
            f"these credentials belong to account {facts.account}, and aws:allowedAccountIds has {', '.join(allowed)}: "
            "use other credentials (aws:profile)"
        )
    for admin in settings.cluster.admins:
        if not settings.cluster.existing and is_caller(admin, facts.caller):
            lines.append(
                f"eksAdmins has {admin}, who makes the cluster and so administers it already; EKS refuses a second "
                "entry: leave it out"
            )
    if not facts.cli:
        lines.append("there is no `aws` on PATH, which signs in to the cluster's API: install the AWS CLI, version 2")
    return lines


def _instance_problems(facts: AwsFacts, settings: EksSettings) -> list[str]:
    """The table of instances.py decides what pods ask for: a wrong entry would leave them Pending."""
    ours, theirs = settings.gpu.instance, facts.instance
    lines = []
    if (ours.gpus, ours.vcpus) != (theirs.gpus, theirs.vcpus):
        lines.append(
            f"EC2 says that {ours.name} has {theirs.gpus} GPUs and {theirs.vcpus} vCPUs, infra/instances.py says "
            f"{ours.gpus} and {ours.vcpus}: correct the table"
        )
    if ours.efa_interfaces > theirs.efa_interfaces:
        lines.append(
            f"EC2 says that {ours.name} has {theirs.efa_interfaces} EFA interfaces in {settings.aws.region}, "
            f"infra/instances.py says {ours.efa_interfaces}: correct the table, or set gpuEfa to false"
        )
    return lines


def system_problems(facts: AwsFacts, settings: EksSettings, control_plane: Sequence[str]) -> list[str]:
    """Of the zones that the system nodes are spread over, by name."""
    wanted = settings.system.instance_type
    there = offering(facts.zones, wanted)
    if settings.cluster.existing or not control_plane or set(control_plane) <= set(there):
        return []
    return [
        f"systemInstanceType {wanted} is not offered in each zone of the control plane, {', '.join(control_plane)} "
        f"(it is in {', '.join(there) or 'none of this region'}): choose another"
    ]


def _cluster_problems(facts: AwsFacts, settings: EksSettings) -> list[str]:
    cluster = facts.cluster
    if cluster is None:
        return []
    lines = []
    if cluster.status != "ACTIVE":
        lines.append(f"cluster {cluster.name} is {cluster.status}: wait until it is ACTIVE")
    if settings.storage.kind == "fsx" and cluster.version not in versions.EKS:
        lines.append(
            f"cluster {cluster.name} runs Kubernetes {cluster.version}, and the driver of eksStorage fsx is pinned for "
            f"{', '.join(versions.EKS)}: upgrade it, or take a bucket"
        )
    return lines
