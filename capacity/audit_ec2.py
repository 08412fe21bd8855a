"""What EC2 still has of a stack. Each function looks for one kind."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from capacity.left import Left
from capacity.looking import Filters, Looking
from capacity.probe_reservation import PROBE_TAG, THERE, found_of
from infra.prices import GP3_IOPS, GP3_MIBPS, HOURS_A_MONTH

_RUNS = {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}
_RESERVED = {"Name": "state", "Values": THERE}
# What EC2 takes away by itself, or has already.
_GOING = ("deleting", "deleted")


def instances(at: Looking) -> Iterator[Left]:
    for filters in (at.by_tags(), at.by_cluster()):
        for reservation in _all(at, "describe_instances", "Reservations", [*filters, _RUNS]):
            for one in reservation["Instances"]:
                state = one["State"]["Name"]
                # A stopped one bills its volumes, which are looked for by themselves.
                stopped = state == "stopped"
                usd = 0.0 if stopped else at.prices.instances.get(one["InstanceType"])
                note = f"{one['InstanceType']}, {state}"
                yield at.left("instance", one["InstanceId"], bills=not stopped, usd=usd, note=note)


def reservations(at: Looking) -> Iterator[Left]:
    """Those of the stack, and what probes have left."""
    now = datetime.now(UTC)
    for filters in (at.by_tags(), [{"Name": "tag-key", "Values": [PROBE_TAG]}]):
        for one in _all(at, "describe_capacity_reservations", "CapacityReservations", [*filters, _RESERVED]):
            made = found_of(at.region, one)
            if made.owner and not made.left_behind(now):
                continue
            # Its instances bill by themselves: what is idle bills as if it ran.
            idle = one.get("AvailableInstanceCount", one["TotalInstanceCount"])
            price = at.prices.instances.get(one["InstanceType"])
            ends = f", ends at {one['EndDate']:%Y-%m-%d %H:%M} UTC" if one.get("EndDate") else ""
            yield at.left(
                "capacity reservation",
                one["CapacityReservationId"],
                bills=True,
                usd=None if price is None else idle * price,
                note=f"{one['TotalInstanceCount']} x {one['InstanceType']}{ends}",
            )


def interfaces(at: Looking) -> Iterator[Left]:
    """The CNI's and the control plane's carry the cluster's name and no tag of ours; those of a network that is still
    there are the stack's, whatever made them."""
    by = [
        at.by_tags(),
        at.by_cluster(),
        [{"Name": "tag:cluster.k8s.amazonaws.com/name", "Values": [at.name]}],
        [{"Name": "description", "Values": [f"Amazon EKS {at.name}"]}],
    ]
    vpcs = [one["VpcId"] for one in _vpcs(at)]
    if vpcs:
        by.append([{"Name": "vpc-id", "Values": vpcs}])
    for filters in by:
        for one in _all(at, "describe_network_interfaces", "NetworkInterfaces", filters):
            free = one["Status"] == "available"
            note = one.get("Description") or one.get("InterfaceType", "")
            note = note if free else f"{note}, goes with what it belongs to"
            end = None if free else ""
            yield at.left("network interface", one["NetworkInterfaceId"], bills=False, note=note, how_to_end=end)


def addresses(at: Looking) -> Iterator[Left]:
    for filters in (at.by_tags(), at.by_cluster()):
        for one in at.client("ec2").describe_addresses(Filters=filters)["Addresses"]:
            yield at.left("public address", one["AllocationId"], bills=True, usd=at.prices.public_ipv4)


def nat_gateways(at: Looking) -> Iterator[Left]:
    for one in _all(at, "describe_nat_gateways", "NatGateways", at.by_tags(), filters_name="Filter"):
        if one["State"] not in _GOING:
            # A failed one is shown for an hour and costs nothing.
            bills = one["State"] != "failed"
            usd = at.prices.nat_gateway if bills else 0.0
            yield at.left("NAT gateway", one["NatGatewayId"], bills=bills, usd=usd, note=one["State"])


def endpoints(at: Looking) -> Iterator[Left]:
    for one in _all(at, "describe_vpc_endpoints", "VpcEndpoints", at.by_tags()):
        if one["State"].lower() not in _GOING:
            bills = one["VpcEndpointType"] != "Gateway"
            zones = len(one.get("SubnetIds", ())) or 1
            price = at.prices.interface_endpoint
            usd = (None if price is None else zones * price) if bills else 0.0
            yield at.left("VPC endpoint", one["VpcEndpointId"], bills=bills, usd=usd, note=one["ServiceName"])


def volumes(at: Looking) -> Iterator[Left]:
    """Those of Kubernetes' claims carry the cluster's name: the EBS CSI driver writes it."""
    of_driver: Filters = [{"Name": "tag:KubernetesCluster", "Values": [at.name]}]
    for filters in (at.by_tags(), at.by_cluster(), of_driver):
        for one in _all(at, "describe_volumes", "Volumes", filters):
            if one["State"] not in _GOING:
                note = f"{one['Size']} GiB {one['VolumeType']}, {one['State']}"
                yield at.left("volume", one["VolumeId"], bills=True, usd=_volume_usd(at, one), note=note)


def placement_groups(at: Looking) -> Iterator[Left]:
    for one in at.client("ec2").describe_placement_groups(Filters=at.by_tags())["PlacementGroups"]:
        if one["State"] not in _GOING:
            yield at.left("placement group", one["GroupName"], bills=False)


def networks(at: Looking) -> Iterator[Left]:
    for one in _vpcs(at):
        yield at.left("VPC", one["VpcId"], bills=False, note="what lies in it goes first")


def _vpcs(at: Looking) -> list[dict[str, Any]]:
    return _all(at, "describe_vpcs", "Vpcs", at.by_tags())


def _all(
    at: Looking, operation: str, result: str, filters: Filters, *, filters_name: str = "Filters"
) -> list[dict[str, Any]]:
    pages = at.client("ec2").get_paginator(operation).paginate(**{filters_name: filters})
    return [one for page in pages for one in page[result]]


def _volume_usd(at: Looking, volume: dict[str, Any]) -> float | None:
    prices = at.prices
    gib, iops, mibps = prices.gp3_gib_month, prices.gp3_iops_month, prices.gp3_mibps_month
    if volume["VolumeType"] != "gp3" or gib is None or iops is None or mibps is None:
        return None
    more_iops = max(volume.get("Iops", GP3_IOPS) - GP3_IOPS, 0)
    more_mibps = max(volume.get("Throughput", GP3_MIBPS) - GP3_MIBPS, 0)
    return float(volume["Size"] * gib + more_iops * iops + more_mibps * mibps) / HOURS_A_MONTH
