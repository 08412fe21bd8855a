"""PURE: what the AWS resources in a stack's state cost an hour by list prices, whichever `up` made them.

As infra/cost.py counts what a stack declares, which takes the Pulumi SDK to import.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from capacity.ended import gpu_nodes, is_gpu_group, is_over, scaled_to_none
from efactl.leftovers import RESERVATION
from infra.prices import GP3_IOPS, GP3_MIBPS, RegionPrices
from workload.recorded_run import at

_NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
_FSX = "aws:fsx/lustreFileSystem:LustreFileSystem"

Resource = Mapping[str, Any]
Part = tuple[str, int, float | None]


@dataclass(frozen=True, kw_only=True)
class Price:
    """`hourly_usd` is the sum of what has a known price, None where nothing has; `lacks` names the rest. `notes` are on
    what AWS has ended since the state was written."""

    hourly_usd: float | None
    lacks: tuple[str, ...]
    notes: tuple[str, ...]


def price(resources: Sequence[Resource], prices: RegionPrices, *, now: datetime) -> Price:
    own = [one for one in resources if one.get("custom") and not one.get("external") and not _is_replaced(one)]
    counts: dict[str, int] = defaultdict(int)
    costs: dict[str, list[float | None]] = defaultdict(list)
    for what, count, each in _parts(own, prices, now):
        if count:
            counts[what] += count
            costs[what].append(None if each is None else count * each)
    lacks = [what for what, told in costs.items() if None in told]
    known = [one or 0.0 for what, told in costs.items() if what not in lacks for one in told]
    return Price(
        hourly_usd=None if lacks and not known else round(sum(known), 4),
        lacks=tuple(f"{counts[what]} x {what}" for what in lacks),
        notes=tuple(_notes(own, now)),
    )


def _is_replaced(resource: Resource) -> bool:
    """Deleted before its successor is made; one that is marked `delete` is still there."""
    return bool(resource.get("pendingReplacement"))


def _notes(own: Sequence[Resource], now: datetime) -> Iterator[str]:
    if scaled_to_none(own, now=now):
        yield "ttlUntil has passed: the GPU nodes that the state has are not counted"
    if any(is_over(one, now=now) for one in _of(own, RESERVATION)):
        yield "the reservation's end has passed: it is not counted"


def _parts(own: Sequence[Resource], prices: RegionPrices, now: datetime) -> Iterator[Part]:
    """What it is, how many, and what each of them costs."""
    templates = {str(one.get("id")): _said(one) for one in _of(own, _TEMPLATE)}
    gone = scaled_to_none(own, now=now)
    for group in _of(own, _NODE_GROUP):
        if not (gone and is_gpu_group(group)):
            yield from _nodes(group, templates, prices)
    yield from _idle(own, 0 if gone else gpu_nodes(own), prices, now)
    yield "EKS control plane", len([*_of(own, "aws:eks/cluster:Cluster")]), prices.control_plane
    yield "NAT gateway", len([*_of(own, "aws:ec2/natGateway:NatGateway")]), prices.nat_gateway
    yield "public IPv4 address", len([*_of(own, "aws:ec2/eip:Eip")]), prices.public_ipv4
    for endpoint in map(_said, _of(own, _ENDPOINT)):
        zones = len(endpoint.get("subnetIds") or []) if endpoint.get("vpcEndpointType") == "Interface" else 0
        yield "interface endpoint in a zone", zones, prices.interface_endpoint
    for files in map(_said, _of(own, _FSX)):
        gib, throughput = int(files.get("storageCapacity") or 0), int(files.get("perUnitStorageThroughput") or 0)
        yield f"FSx for Lustre, {gib} GiB at {throughput} MB/s each TiB", 1, prices.fsx(gib, throughput)


def _nodes(group: Resource, templates: Mapping[str, Mapping[str, Any]], prices: RegionPrices) -> Iterator[Part]:
    said = _said(group)
    template = templates.get(str(at(said, "launchTemplate", "id")), {})
    count = int(at(said, "scalingConfig", "desiredSize") or 0)
    # A capacity block's type stands in the template.
    kind = str((said.get("instanceTypes") or [template.get("instanceType")])[0])
    role = "GPU nodes" if is_gpu_group(group) else "system nodes"
    market = said.get("capacityType")
    if market == "SPOT":
        yield f"{kind}, {role} (spot)", count, None
    elif market == "CAPACITY_BLOCK":
        # Paid when it was bought.
        yield f"{kind}, {role} (capacity block)", count, 0.0
    else:
        yield f"{kind}, {role}", count, prices.instances.get(kind)
    for device in template.get("blockDeviceMappings") or []:
        disk = device.get("ebs") or {}
        gib = int(disk.get("volumeSize") or 0)
        each = prices.gp3(gib, iops=int(disk.get("iops") or GP3_IOPS), mibps=int(disk.get("throughput") or GP3_MIBPS))
        yield f"gp3 disk of {gib} GiB, {role}", count, each


def _idle(own: Sequence[Resource], nodes: int, prices: RegionPrices, now: datetime) -> Iterator[Part]:
    """A reservation bills its nodes' price with them or idle; those that are there have been counted."""
    for reservation in _of(own, RESERVATION):
        if not is_over(reservation, now=now):
            said = _said(reservation)
            kind, count = str(said.get("instanceType")), int(said.get("instanceCount") or 0)
            yield f"{kind}, reserved and idle", max(0, count - nodes), prices.instances.get(kind)
            nodes = max(0, nodes - count)


def _of(own: Iterable[Resource], token: str) -> Iterator[Resource]:
    return (one for one in own if one["type"] == token)


def _said(resource: Resource) -> Mapping[str, Any]:
    return resource.get("outputs") or resource.get("inputs") or {}
