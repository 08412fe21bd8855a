"""PURE: what of a stack's state AWS has ended by itself since, or a further `up` would end: by the stack's guards."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
_SCHEDULE = "aws:scheduler/schedule:Schedule"
_NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
_JOB = "pulumi-python:dynamic/workload:RayTrainJob"
_AT = re.compile(r"at\(([0-9T:-]+)\)")

Resources = Sequence[Mapping[str, Any]]


def needs_refresh(resources: Resources, *, now: datetime) -> bool:
    """Whether a reservation is past its end, or a schedule has scaled to none a node group that the state has nodes of.

    Only `--refresh` tells the state: without it AWS refuses to cancel the one, and the other is not scaled up again.
    """
    return bool(ended_reservations(resources, now=now)) or scaled_to_none(resources, now=now)


def is_over(reservation: Mapping[str, Any], *, now: datetime) -> bool:
    """Whether a reservation is past its end."""
    return _time(_said(reservation).get("endDate")) <= now


def scaled_to_none(resources: Resources, *, now: datetime) -> bool:
    """Whether a schedule has ended GPU nodes that the state still has."""
    fired = any(_time(_at(_said(one).get("scheduleExpression"))) <= now for one in _of(resources, _SCHEDULE))
    return fired and gpu_nodes(resources) > 0


def ended_reservations(resources: Resources, *, now: datetime) -> list[str]:
    """URNs of those past their end, which bill no longer and cannot be cancelled."""
    return [str(one["urn"]) for one in _of(resources, _RESERVATION) if is_over(one, now=now)]


def may_give_back(resources: Resources) -> bool:
    """Whether a run is in the state, and GPU nodes or a reservation too, so that gpuScaleToZeroAfterJob has a say.

    `pulumi up --continue-on-error` then ends them: where the gate fails, as it does again for a refuted run, a plain
    `up` stops before it deletes the reservation.
    """
    return any(True for _ in _of(resources, _JOB)) and gpu_nodes(resources) + reserved(resources) > 0


def is_gpu_group(group: Mapping[str, Any]) -> bool:
    """Whether a node group is the one that a component of that name makes."""
    return str(group["urn"]).rpartition("::")[2].endswith("gpu-group")


def gpu_nodes(resources: Resources) -> int:
    groups = [one for one in _of(resources, _NODE_GROUP) if is_gpu_group(one)]
    return sum(int((_said(one).get("scalingConfig") or {}).get("desiredSize") or 0) for one in groups)


def reserved(resources: Resources) -> int:
    """Instances in the reservations that were made here."""
    return sum(int(_said(one).get("instanceCount") or 0) for one in _of(resources, _RESERVATION))


def _of(resources: Resources, token: str) -> Iterator[Mapping[str, Any]]:
    return (one for one in resources if one["type"] == token and not one.get("external") and not one.get("delete"))


def _said(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    return resource.get("outputs") or resource.get("inputs") or {}


def _at(expression: Any) -> str | None:
    found = _AT.fullmatch(str(expression))
    return f"{found[1]}Z" if found else None


def _time(text: Any) -> datetime:
    """Without one that can be read: never."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
