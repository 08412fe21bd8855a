"""PURE: EC2's and Service Quotas' answers, page by page, as what they say for a request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from capacity.answers import Missing, Price, Quota, RegionAnswers, Reservation, TypeFacts, Usage, Zone
from capacity.choice import UNKNOWN_TYPE
from capacity.quotas import QuotaFamily

Pages = Iterable[Mapping[str, Any]]

# As `infra` tags what a stack makes, and `capacity.probe` what a probe does.
STACK_TAG, PROBE_TAG = "ray-train-efa/name", "ray-train-efa:probe"
# What counts against a quota is what has a host.
RUNNING = ("pending", "running")
# A stack is hardly up by then.
_SOON = timedelta(hours=1)


def zones(answer: Mapping[str, Any]) -> tuple[Zone, ...]:
    """Local and Wavelength zones have neither EFA nor an EKS control plane."""
    return tuple(
        Zone(name=one["ZoneName"], zone_id=one["ZoneId"], state=one.get("State", "available"))
        for one in sorted(answer["AvailabilityZones"], key=lambda one: str(one["ZoneId"]))
        if one.get("ZoneType", "availability-zone") == "availability-zone"
    )


def offered(pages: Pages) -> tuple[str, ...]:
    return tuple(sorted({one["Location"] for page in pages for one in page["InstanceTypeOfferings"]}))


def type_facts(name: str, pages: Pages) -> TypeFacts | Missing:
    found = [one for page in pages for one in page["InstanceTypes"] if one["InstanceType"] == name]
    if not found:
        return Missing(code=UNKNOWN_TYPE, text=f"the region has no {name}")
    one = found[0]
    gpus = one.get("GpuInfo", {}).get("Gpus", [])
    network = one.get("NetworkInfo", {})
    efa = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 1) if network.get("EfaSupported") else 0
    return TypeFacts(
        name=name,
        vcpus=one["VCpuInfo"]["DefaultVCpus"],
        gpus=sum(gpu.get("Count", 0) for gpu in gpus),
        gpu_name=gpus[0].get("Name", "") if gpus else "",
        efa_interfaces=efa,
        spot="spot" in one.get("SupportedUsageClasses", ["spot"]),
    )


def vcpus_by_type(pages: Pages) -> dict[str, int]:
    return {one["InstanceType"]: one["VCpuInfo"]["DefaultVCpus"] for page in pages for one in page["InstanceTypes"]}


def running(family: QuotaFamily, pages: Pages, *, spot: bool) -> tuple[int, dict[str, int]]:
    """vCPUs of what runs and counts against the quota, and the number of instances whose vCPUs were not told, by type.

    A capacity block and a dedicated host have quotas of their own. CpuOptions tells what an instance really has.
    """
    vcpus, untold = 0, dict[str, int]()
    for one in (one for page in pages for group in page["Reservations"] for one in group["Instances"]):
        counts = (
            one.get("State", {}).get("Name") in RUNNING
            and family.counts(one["InstanceType"])
            and one.get("InstanceLifecycle", "") == ("spot" if spot else "")
            and one.get("Placement", {}).get("Tenancy") != "host"
        )
        if not counts:
            continue
        cpu = one.get("CpuOptions", {})
        if "CoreCount" in cpu:
            vcpus += cpu["CoreCount"] * cpu.get("ThreadsPerCore", 1)
        else:
            untold[one["InstanceType"]] = untold.get(one["InstanceType"], 0) + 1
    return vcpus, untold


@dataclass(frozen=True, kw_only=True)
class Held:
    """Reservations of the type asked for, and the vCPUs of the quota's family that each owner's keep free."""

    reservations: tuple[Reservation, ...]
    idle_vcpus: Mapping[str, int]


def reservations(
    instance_type: str, family: QuotaFamily | None, pages: Pages, *, now: datetime
) -> tuple[tuple[Reservation, ...], dict[str, dict[str, int]]]:
    """Those of the type, and by owner how many instances of each type of the family are kept free.

    These count against the owner's on-demand quota: docs.aws.amazon.com/AWSEC2/latest/UserGuide, "Capacity Reservation
    limits". Those of capacity blocks do not.
    """
    there = [one for page in pages for one in page["CapacityReservations"] if one.get("State") == "active"]
    matching = [_reservation(one, now) for one in there if one["InstanceType"] == instance_type]
    idle: dict[str, dict[str, int]] = {}
    for one in there:
        counts = one.get("ReservationType", "default") == "default" and one.get("AvailableInstanceCount", 0)
        if counts and family is not None and family.counts(one["InstanceType"]):
            of_owner = idle.setdefault(one.get("OwnerId", ""), {})
            of_owner[one["InstanceType"]] = of_owner.get(one["InstanceType"], 0) + counts
    return tuple(sorted(matching, key=lambda one: one.id)), idle


def _reservation(one: Mapping[str, Any], now: datetime) -> Reservation:
    tags = {tag["Key"]: tag.get("Value", "") for tag in one.get("Tags", [])}
    ends = one.get("EndDate") if one.get("EndDateType") == "limited" else None
    return Reservation(
        id=one["CapacityReservationId"],
        owner=one.get("OwnerId", ""),
        own=False,
        zone=one.get("AvailabilityZone", ""),
        zone_id=one.get("AvailabilityZoneId", ""),
        total=one.get("TotalInstanceCount", 0),
        free=one.get("AvailableInstanceCount", 0),
        criteria=one.get("InstanceMatchCriteria", "open"),
        platform=one.get("InstancePlatform", "Linux/UNIX"),
        tenancy=one.get("Tenancy", "default"),
        placement_group=one.get("PlacementGroupArn", ""),
        ends="" if ends is None else f"{ends.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        ends_soon=ends is not None and ends - now < _SOON,
        kind=one.get("ReservationType", "default"),
        interruptible=bool(one.get("Interruptible", False)),
        stack=tags.get(STACK_TAG, ""),
        probe=PROBE_TAG in tags,
    )


def scores(region: str, pages: Pages) -> dict[str, int]:
    """By zone id, from 1 to 10."""
    found = [one for page in pages for one in page["SpotPlacementScores"]]
    return {one["AvailabilityZoneId"]: one["Score"] for one in found if one.get("Region", region) == region}


def spot_prices(pages: Pages, *, today: str) -> dict[str, Price]:
    """The latest of each zone."""
    newest: dict[str, Mapping[str, Any]] = {}
    for one in (one for page in pages for one in page["SpotPriceHistory"]):
        zone = one["AvailabilityZone"]
        if zone not in newest or one["Timestamp"] > newest[zone]["Timestamp"]:
            newest[zone] = one
    return {
        zone: Price(usd=float(one["SpotPrice"]), as_of=today, source="spot price history")
        for zone, one in newest.items()
    }


def quota(answer: Mapping[str, Any], family: QuotaFamily, *, applied: bool) -> Quota | Missing:
    one = answer.get("Quota", {})
    if "Value" not in one:
        reason = one.get("ErrorReason", {})
        return Missing(code=reason.get("ErrorCode", ""), text=reason.get("ErrorMessage", "Service Quotas has no value"))
    return Quota(code=family.code, vcpus=one["Value"], applied=applied)


def assembled(
    region: str, said: Mapping[str, Any], *, account: str, opt_in: str, price: Price | Missing
) -> RegionAnswers:
    """The parts put together. A region all of whose questions failed in one way has that as its trouble."""
    if not said:
        return RegionAnswers(region=region, opt_in=opt_in, price=price)
    reasons = [value for value in said.values() if isinstance(value, Missing)]
    same = len(reasons) == len(said) and len({one.code for one in reasons}) == 1
    held, running = said["held"], said["running"]
    kept = 0 if isinstance(held, Missing) else held.idle_vcpus.get(account, 0)
    return RegionAnswers(
        region=region,
        opt_in=opt_in,
        trouble=reasons[0] if same else None,
        zones=said["zones"],
        offered=said["offered"],
        type=said["type"],
        quota=said["quota"],
        usage=running if isinstance(running, Missing) else Usage(running_vcpus=running, reserved_vcpus=kept),
        reservations=held if isinstance(held, Missing) else _owned(held.reservations, account),
        scores=said["scores"],
        price=price,
        spot_prices=said.get("spot_prices", {}),
    )


def _owned(there: tuple[Reservation, ...], account: str) -> tuple[Reservation, ...]:
    return tuple(replace(one, own=bool(account) and one.owner == account) for one in there)
