"""What AWS's own API says of a stand-in account to whoever looks for capacity: zones, offers, quotas, reservations."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from tools.standin import capacity, tokens, zones
from tools.standin.endpoint_answers import ANSWERS as PLAIN
from tools.standin.endpoint_answers import Item, There, tags_of

Answer = Callable[[There], Item]


def filtered(at: There, name: str) -> list[str]:
    """The values of a filter; none where it is not set."""
    filters = at.asked.parameters.get("Filters") or []
    return [value for one in filters if one["Name"] == name for value in one["Values"]]


def _regions(at: There) -> Item:
    return {"Regions": [{"RegionName": name, "OptInStatus": "opt-in-not-required"} for name in zones.regions()]}


def _zones(at: There) -> Item:
    plain = {"State": "available", "ZoneType": "availability-zone"}
    there = zones.zones(at.asked.region)
    return {"AvailabilityZones": [{"ZoneName": name, "ZoneId": id, **plain} for name, id in there.items()]}


def _offerings(at: There) -> Item:
    found = [
        {"InstanceType": name, "LocationType": "availability-zone", "Location": zone}
        for name in filtered(at, "instance-type")
        for zone in capacity.offered(at.scenario, at.asked.region, name)
    ]
    return {"InstanceTypeOfferings": found}


def _types(at: There) -> Item:
    return {"InstanceTypes": [_type(name) for name in filtered(at, "instance-type") if name in capacity.type_names()]}


def _type(name: str) -> Item:
    facts = capacity.facts(name)
    efa = {"EfaSupported": facts["efa"] > 0, "EfaInfo": {"MaximumEfaInterfaces": facts["efa"]}}
    return {
        "InstanceType": name,
        "VCpuInfo": {"DefaultVCpus": facts["vcpus"]},
        "GpuInfo": {"Gpus": [{"Name": facts["gpu"], "Count": facts["gpus"]}]} if facts["gpus"] else {},
        "NetworkInfo": efa,
        "SupportedUsageClasses": ["on-demand", "spot"],
    }


def _instances(at: There) -> Item:
    """Of certain types, as whoever counts vCPUs asks."""
    if not filtered(at, "instance-type"):
        return PLAIN["ec2", "DescribeInstances"](at)
    groups = [entry.hidden.get("running") or {} for entry in at.entries(tokens.NODE_GROUP)]
    running = [
        {"InstanceType": group["type"], "State": {"Code": 16, "Name": "running"}}
        for group in groups
        for _ in range(group.get("count", 0))
    ]
    return {"Reservations": [{"ReservationId": "r-0", "Instances": running}]}


def _reservations(at: There) -> Item:
    """Without tags asked for: all of the account, as whoever counts what is kept free asks."""
    asked = at.asked.parameters
    if asked.get("CapacityReservationIds") or [one["Name"] for one in asked.get("Filters", [])] != ["state"]:
        return PLAIN["ec2", "DescribeCapacityReservations"](at)
    found = []
    for entry in at.entries(tokens.CAPACITY_RESERVATION):
        if capacity.state_of(entry, datetime.now(UTC)) != "active":
            continue
        given, zone = entry.inputs, entry.inputs["availabilityZone"]
        end = {"EndDate": datetime.fromisoformat(given["endDate"])} if "endDate" in given else {}
        found.append(
            {
                "CapacityReservationId": entry.id,
                "OwnerId": at.scenario.account,
                "InstanceType": given["instanceType"],
                "InstancePlatform": given["instancePlatform"],
                "AvailabilityZone": zone,
                "AvailabilityZoneId": zones.zone_id_of(at.asked.region, zone),
                "TotalInstanceCount": int(given["instanceCount"]),
                "AvailableInstanceCount": capacity.free_in(at.records, entry),
                "InstanceMatchCriteria": given.get("instanceMatchCriteria", "open"),
                "Tenancy": "default",
                "State": "active",
                "EndDateType": given.get("endDateType", "unlimited"),
                "Tags": tags_of(entry),
                **end,
            }
        )
    return {"CapacityReservations": found}


def _quota(at: There) -> Item:
    code = at.asked.parameters["QuotaCode"]
    known = dict(capacity.quota_of(at.scenario, name) for name in ("g6.12xlarge", "p5.48xlarge", "m7i.xlarge"))
    return {"Quota": {"QuotaCode": code, "Value": known.get(code, 0.0)}}


def _none(name: str) -> Answer:
    return lambda _: {name: []}


ANSWERS: Mapping[tuple[str, str], Callable[[There], dict[str, Any]]] = {
    ("ec2", "DescribeRegions"): _regions,
    ("ec2", "DescribeAvailabilityZones"): _zones,
    ("ec2", "DescribeInstanceTypeOfferings"): _offerings,
    ("ec2", "DescribeInstanceTypes"): _types,
    ("ec2", "DescribeInstances"): _instances,
    ("ec2", "DescribeCapacityReservations"): _reservations,
    ("ec2", "GetSpotPlacementScores"): _none("SpotPlacementScores"),
    ("service-quotas", "GetServiceQuota"): _quota,
    ("pricing", "GetProducts"): lambda _: {"PriceList": [], "FormatVersion": "aws_v1"},
}
