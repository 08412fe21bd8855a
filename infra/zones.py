"""PURE: which availability zones a network is laid over, and which of them the control plane stands in."""

from collections.abc import Sequence
from dataclasses import dataclass

from workload.errors import BadInputError

# EKS puts no control plane there (its user guide, "Networking requirements for VPC and subnets"). By id: the names of
# zones differ between accounts.
NO_CONTROL_PLANE = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})


@dataclass(frozen=True, kw_only=True)
class ZoneFacts:
    """A zone of the account's region. `offers` are the instance types it has, of those that were asked about."""

    name: str
    zone_id: str
    offers: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class ZonePlan:
    """Names of zones. The GPU zone is the first of `all`; it need not be among `control_plane`."""

    gpu: str
    control_plane: tuple[str, ...]
    all: tuple[str, ...]


def choose_zones(
    zones: Sequence[ZoneFacts], *, gpu_zone: str, gpu_type: str, given: Sequence[str], count: int = 2
) -> ZonePlan:
    """A plan over `given`, or where that is empty over the GPU zone and the `count` zones of the control plane.

    `zones` are all of the region's, whatever their state at the moment. Raises BadInputError where the GPU zone does
    not offer the type (with the zones that do), and where too few zones can host a control plane.
    """
    check_offered(zones, gpu_zone=gpu_zone, gpu_type=gpu_type)
    by_name = {zone.name: zone for zone in zones}
    for name in given:
        if name not in by_name:
            raise BadInputError(
                f"vpcZones: '{name}' is not a zone of this region, which has {', '.join(sorted(by_name))}"
            )
    if given and gpu_zone not in given:
        raise BadInputError(f"gpuZone {gpu_zone} is not among vpcZones {', '.join(given)}: add it there")
    candidates = [by_name[name] for name in dict.fromkeys(given)] if given else sorted(zones, key=lambda z: z.zone_id)
    # Without regard to the GPU zone, which may be another tomorrow: EKS changes a control plane's subnets, but never
    # its zones (aws/containers-roadmap#2258).
    fit = [zone.name for zone in candidates if zone.zone_id not in NO_CONTROL_PLANE]
    if len(fit) < count:
        unfit = ", ".join(f"{zone.name} ({zone.zone_id})" for zone in candidates if zone.name not in fit)
        because = f"; EKS puts none in {unfit}" if unfit else ""
        where, what = ("vpcZones", "add zones") if given else ("this region", "take another region")
        raise BadInputError(
            f"{where}: {len(fit)} of the zones {', '.join(zone.name for zone in candidates)} can have a control plane, "
            f"which needs {count}{because}: {what}"
        )
    control_plane = tuple(fit[:count])
    return ZonePlan(
        gpu=gpu_zone, control_plane=control_plane, all=tuple(dict.fromkeys((gpu_zone, *(given or control_plane))))
    )


def check_offered(zones: Sequence[ZoneFacts], *, gpu_zone: str, gpu_type: str) -> None:
    """Raises BadInputError where the GPU zone is none of `zones`, or does not offer the type."""
    there = offering(zones, gpu_type)
    if not there:
        raise BadInputError(
            f"gpuInstanceType {gpu_type} is offered in no zone of this region "
            f"({', '.join(sorted(zone.name for zone in zones))}): take another type, or another aws:region"
        )
    if gpu_zone not in there:
        known = any(zone.name == gpu_zone for zone in zones)
        what = f"does not offer {gpu_type}" if known else "is not a zone of this region"
        raise BadInputError(f"gpuZone '{gpu_zone}' {what}: set it to one that offers {gpu_type}: {', '.join(there)}")


def offering(zones: Sequence[ZoneFacts], instance_type: str) -> tuple[str, ...]:
    """Names of the zones that offer a type, by zone id."""
    return tuple(zone.name for zone in sorted(zones, key=lambda z: z.zone_id) if instance_type in zone.offers)
