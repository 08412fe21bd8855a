"""PURE: what of a stack's AWS resources bills while it is there, what a destroy leaves, and in whose account."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from capacity.ended import ended_reservations

RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
# By type: what it is called, dearest first.
BILLED = {
    RESERVATION: "capacity reservation",
    "aws:eks/nodeGroup:NodeGroup": "node group",
    "aws:fsx/lustreFileSystem:LustreFileSystem": "FSx file system",
    "aws:eks/cluster:Cluster": "EKS control plane",
    "aws:ec2/natGateway:NatGateway": "NAT gateway",
    "aws:ec2/eip:Eip": "public address",
}
_KEPT = {"aws:s3/bucket:Bucket": "bucket", "aws:fsx/lustreFileSystem:LustreFileSystem": "FSx file system"}
_KEY = "aws:kms/key:Key"
_GUARD = "pulumi-python:dynamic/infra:EksGuard"
_ARN = re.compile(r"arn:aws[a-z-]*:[a-z0-9-]+:([a-z0-9-]*):(\d{12}):")

State = Sequence[Mapping[str, Any]]


def billing(resources: State, *, now: datetime | None = None) -> list[str]:
    """What of a state bills, by kind and id, the dearest first. `now` None: now."""
    there = _there(resources, now or datetime.now(UTC))
    return [
        f"{name} {resource['id']}" for token, name in BILLED.items() for resource in there if resource["type"] == token
    ]


def still_billing(resources: State, *, stack: str, region: str, now: datetime | None = None) -> list[str]:
    """Lines for a stack that an `up` or a destroy left half-way; empty where nothing of it bills. `now` None: now."""
    now = now or datetime.now(UTC)
    found = billing(resources, now=now)
    if not found:
        return []
    lines = [f"still there, and billing: {', '.join(found)}", f"`efactl down -s {stack}` ends it all"]
    reservations = [one["id"] for one in _there(resources, now) if one["type"] == RESERVATION]
    if reservations:
        ids = " ".join(map(str, reservations))
        lines.append(
            "should that fail, end the dearest by hand: aws ec2 cancel-capacity-reservation "
            f"--region {region} --capacity-reservation-id {ids}"
        )
    return lines


def _there(resources: State, now: datetime) -> list[Mapping[str, Any]]:
    """But for what is somebody else's, and reservations that AWS has ended."""
    over = ended_reservations(resources, now=now)
    return [one for one in resources if one.get("id") and not one.get("external") and one.get("urn") not in over]


def provider_of_apart(resources: State) -> str | None:
    """The URN of the provider of objects in a cluster that a destroy deletes one by one, not with the cluster; None
    where there are none."""
    for resource in resources:
        if resource["type"].startswith("kubernetes:") and not resource.get("deletedWith"):
            return str(resource.get("provider", "")).rpartition("::")[0]
    return None


def kept(resources: State) -> list[str]:
    """What a destroy of these leaves: by setting (storageKeep), or because AWS deletes it later."""
    found = [
        f"{name} {resource['id']} (storageKeep)"
        for token, name in _KEPT.items()
        for resource in resources
        if resource["type"] == token and resource.get("retainOnDelete")
    ]
    keys = [str(resource["id"]) for resource in resources if resource["type"] == _KEY]
    return [*found, *(f"KMS key {key} (AWS deletes it in 7 days; it costs nothing until then)" for key in keys)]


def fixed_settings(resources: State) -> Mapping[str, Any]:
    """What the stack was made with and cannot change, its account among it; empty once a destroy has come that far."""
    guards = [resource for resource in resources if resource["type"] == _GUARD]
    fixed: Mapping[str, Any] = (guards[-1].get("outputs") or {}).get("fixed", {}) if guards else {}
    return fixed


def account(resources: State) -> str:
    """The account that what was made here is in, by its ARNs; empty where there is none."""
    found = Counter(number for _, number in _arns(resources))
    return found.most_common(1)[0][0] if found else ""


def regions(resources: State) -> list[str]:
    """Those of the ARNs, sorted."""
    return sorted({region for region, _ in _arns(resources) if region})


def _arns(resources: State) -> Iterator[tuple[str, str]]:
    for resource in resources:
        if resource["type"].startswith("aws:") and not resource.get("external"):
            found = _ARN.match(str((resource.get("outputs") or {}).get("arn", "")))
            if found:
                yield found[1], found[2]
