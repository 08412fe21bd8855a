"""PURE: what a chosen place means for the settings of a stack, and what the choice rested on, for its reader."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from capacity.candidate import Candidate
from capacity.choice import Choice
from capacity.place import Place
from infra.eks_settings import end_of
from workload.errors import BadInputError

_PROJECT = "ray-train-efa"
ONLY_PLATFORM = "eks"
# Its zone is its own: there is none to choose.
CAPACITY_BLOCK = "capacity-block"
# Of one region alone: another one has zones of its own, and none of the rest.
_CHOSEN_ANEW = ("vpcZones", "gpuFallbackZones")
_OF_ONE_REGION = (
    "eksExistingCluster",
    "gpuExistingGroup",
    "gpuSecurityGroups",
    "eksSecretsKey",
    "vpcId",
    "vpcPrivateSubnets",
)
_RESERVED_FOR = timedelta(hours=12)
_RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
_NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
_STACK = "pulumi:pulumi:Stack"
# Pulumi.yaml's, of what need not be written down to be so.
_DEFAULTS: Mapping[str, Any] = {"gpuMarket": "on-demand", "gpuPlacementGroup": "", "gpuFallbackZones": []}


@dataclass(frozen=True, kw_only=True)
class Change:
    """A setting with its namespace; a new one stands below the first of `below` that is there."""

    key: str
    value: str | tuple[str, ...]
    was: Any
    below: tuple[str, ...]

    def line(self) -> str:
        shown = self.value if isinstance(self.value, str) else ", ".join(self.value) or "none"
        before = ", ".join(map(str, self.was)) if isinstance(self.was, list) else self.was
        return f"{self.key.removeprefix(f'{_PROJECT}:')}: {shown} ({'new' if self.was is None else f'was {before}'})"


def name_of(env: str, place: Place) -> str:
    """The stack's."""
    return f"{env}-{place.region}"


def platform_of(settings: Mapping[str, Any]) -> str:
    return str(_of(settings, "platform") or "local")


def market_of(settings: Mapping[str, Any]) -> str:
    return str(_of(settings, "gpuMarket") or _DEFAULTS["gpuMarket"])


def network_of(settings: Mapping[str, Any]) -> list[str]:
    """The zones of its own network, which are fixed once it is made; empty where the program takes them."""
    return list(_of(settings, "vpcZones") or [])


def check_platform(settings: Mapping[str, Any], file: str) -> None:
    """Raises BadInputError for a file of another platform: it has no place to choose."""
    if (platform := platform_of(settings)) != ONLY_PLATFORM:
        raise BadInputError(f"{file} is for platform {platform}, not {ONLY_PLATFORM}")


def only_there(settings: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What another region chooses anew, with namespaces, and what cannot be there at all: a cluster, a network, a
    reservation, a placement group that is held."""
    dropped = [f"{_PROJECT}:{key}" for key in _CHOSEN_ANEW if settings.get(f"{_PROJECT}:{key}")]
    refused = [key for key in _OF_ONE_REGION if settings.get(f"{_PROJECT}:{key}")]
    if settings.get(f"{_PROJECT}:gpuPlacementGroup") not in (None, "", "cluster"):
        refused.append("gpuPlacementGroup")
    return dropped, refused


def changes(
    settings: Mapping[str, Any],
    place: Place,
    choice: Choice,
    *,
    until: str,
    now: datetime,
    base: Mapping[str, Any] | None = None,
) -> list[Change]:
    """Only what is another value than before. `until` "" leaves the reservation's end alone, as long as it is ahead.
    `base` are the environment's own settings, which hold again where a reservation does not any more.

    Raises BadInputError for the settings of another platform, and for a place that is not in the plan.
    """
    check_platform(settings, "the stack's file")
    if place not in choice.plan:
        raise BadInputError(
            f"{place.zone} is not in the plan: {', '.join(one.zone for one in choice.plan) or 'none is'}"
        )
    wanted: dict[str, str | tuple[str, ...]] = {
        "aws:region": place.region,
        "gpuZone": place.zone,
        "gpuFallbackZones": _fallback(settings, place, choice),
        "gpuInstanceType": choice.request.instance_type,
        "gpuNodes": str(choice.request.nodes),
        **_capacity(settings, choice.of(place), choice, until=until, now=now, base=base or {}),
    }
    below = {
        "gpuFallbackZones": ("gpuZone",),
        "gpuInstanceType": ("gpuFallbackZones", "gpuZone"),
        "gpuNodes": ("gpuInstanceType", "gpuZone"),
        "capacity": ("gpuNodes", "gpuZone"),
        "capacityUntil": ("capacity",),
        "gpuMarket": ("capacity",),
        "gpuPlacementGroup": ("capacity",),
    }
    full = {key: key if ":" in key else f"{_PROJECT}:{key}" for key in (*wanted, *below)}
    return [
        Change(
            key=full[key],
            value=value,
            was=settings.get(full[key]),
            below=tuple(full.get(one, f"{_PROJECT}:{one}") for one in below.get(key, ())),
        )
        for key, value in wanted.items()
        if not _same(settings.get(full[key], _DEFAULTS.get(key)), value)
    ]


def _fallback(settings: Mapping[str, Any], place: Place, choice: Choice) -> tuple[str, ...]:
    """What is outside of the network's zones is no place for its nodes."""
    network = network_of(settings)
    if network and place.zone not in network:
        raise BadInputError(
            f"vpcZones in the stack's file are {', '.join(network)}, without {place.zone}: add it there, or take it out"
        )
    others = [one.zone for one in choice.plan if one.region == place.region and one != place]
    return tuple(zone for zone in others if not network or zone in network)


def _capacity(
    settings: Mapping[str, Any],
    found: Candidate,
    choice: Choice,
    *,
    until: str,
    now: datetime,
    base: Mapping[str, Any],
) -> dict[str, str]:
    """Launching straight stays so, and so does a held reservation as long as the zone does and it is there."""
    if choice.request.spot:
        return {"capacity": "none", "gpuMarket": "spot"}
    held = next((one for one in found.reservations if one.id == found.reservation), None)
    if held:
        market = CAPACITY_BLOCK if held.kind == CAPACITY_BLOCK else "on-demand"
        group = held.placement_group.rpartition("/")[2]
        return {"capacity": held.id, "gpuMarket": market, "gpuPlacementGroup": group}
    mode, stays = str(_of(settings, "capacity") or "reserve"), _of(settings, "gpuZone") == found.zone
    placed: dict[str, str] = {}
    if _is_held(mode):
        # One without room is kept: our own nodes may be in it.
        if stays and (not found.reservations_told or mode in {one.id for one in found.reservations}):
            return {}
        mode, placed = _without_it(base)
    # A capacity block and spot are other markets than the one that was looked at.
    if mode == "none":
        return {"capacity": "none", "gpuMarket": "on-demand", **placed}
    # What is asked for is the end, however near; what the file has may be of an earlier day.
    if not until and not _is_ahead(until := str(_of(settings, "capacityUntil") or ""), now):
        later = now.astimezone(UTC) + _RESERVED_FOR + timedelta(hours=1)
        until = later.replace(minute=0, second=0, microsecond=0).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"capacity": "reserve", "capacityUntil": until, "gpuMarket": "on-demand", **placed}


def _is_held(mode: str) -> bool:
    return mode.startswith("cr-")


def _without_it(base: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """What `capacity` and the placement group were before a reservation, which has one of its own, was held."""
    mode = str(_of(base, "capacity") or "reserve")
    group = str(_of(base, "gpuPlacementGroup") or "")
    # A group by another name is the base's region's.
    return "reserve" if _is_held(mode) else mode, {"gpuPlacementGroup": group if group == "cluster" else ""}


def _of(settings: Mapping[str, Any], key: str) -> Any:
    return settings.get(f"{_PROJECT}:{key}")


def _is_ahead(until: str, now: datetime) -> bool:
    try:
        return end_of(until) > now + timedelta(hours=1)
    except ValueError:
        return False


def _same(was: Any, value: str | tuple[str, ...]) -> bool:
    if isinstance(value, tuple):
        return list(was or []) == list(value)
    return was is not None and str(was) == value


def held_zones(resources: Sequence[Mapping[str, Any]]) -> set[str]:
    """Where a stack's state has GPU capacity: the zones of its reservations and of its GPU nodes."""
    found = {
        str((one.get("outputs") or one.get("inputs") or {}).get("availabilityZone"))
        for one in resources
        if one["type"] == _RESERVATION and not one.get("external")
    }
    if any(one["type"] == _NODE_GROUP and one["urn"].rpartition("::")[2] == "ray-gpu-group" for one in resources):
        found |= {str((one.get("outputs") or {}).get("gpuZone")) for one in resources if one["type"] == _STACK}
    return found - {"None", ""}


def answers(place: Place, choice: Choice, *, now: datetime) -> list[str]:
    """Lines for a reader: the place, the time, and what each place of the plan was said to have."""
    lines = [f"{place.zone} ({place.zone_id}), asked {now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}. It is not asked again."]
    for number, one in enumerate(choice.plan, start=1):
        lines.append(f"  {number}. {one.zone} ({one.zone_id}): {_facts(choice.of(one)) or 'nothing more was said'}")
    out = sum(1 for one in choice.candidates if not one.eligible)
    return [*lines, f"  {out} other places were out: `efactl capacity` says why"] if out else lines


def _facts(one: Candidate) -> str:
    parts = []
    if one.reservation:
        parts.append(f"reservation {one.reservation}")
    if one.quota_vcpus is not None:
        used = "" if one.used_vcpus is None else f", {one.used_vcpus} in use"
        parts.append(f"quota {one.quota_vcpus:g} vCPU{used}")
    if one.spot_score is not None:
        parts.append(f"spot score {one.spot_score}")
    if one.usd_per_hour is not None:
        parts.append(f"${one.usd_per_hour:.2f} an hour{f' ({one.price_as_of})' if one.price_as_of else ''}")
    if one.probe is not None:
        parts.append(f"probe: {one.probe.get('outcome')}")
    return ", ".join(parts)
