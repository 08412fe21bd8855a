"""PURE: how long each step of a stack's bring-up took, by the times in its state, beside how long it usually takes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from capacity.phases import phase_of

Resources = Sequence[Mapping[str, Any]]


def steps_of(resources: Resources) -> list[dict[str, Any]]:
    """`name`, `seconds` and `modelSeconds` of each step that takes long, in the order in which they ended.

    The engine writes down when a resource was made, not when it began: that is when the last of what it depends on was
    there. Empty where the state has no such step.
    """
    ends = {str(one["urn"]): made for one in resources if (made := _made(one)) is not None and not one.get("delete")}
    if not ends:
        return []
    first = min(ends.values())
    found = []
    for one in sorted((one for one in resources if one["urn"] in ends), key=lambda one: ends[one["urn"]]):
        phase = phase_of(str(one["urn"]))
        if phase is None or one.get("external"):
            continue
        needs = [ends[urn] for urn in _needs(one) if urn in ends]
        began = max((end for end in needs if end <= ends[one["urn"]]), default=first)
        took = (ends[one["urn"]] - began).total_seconds()
        found.append({"name": phase[0], "seconds": took, "modelSeconds": phase[1]})
    return found


def _made(resource: Mapping[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(str(resource.get("created")))
    except ValueError:
        return None


def _needs(resource: Mapping[str, Any]) -> set[str]:
    by_property = resource.get("propertyDependencies") or {}
    return {*(resource.get("dependencies") or ()), *(urn for urns in by_property.values() for urn in urns or ())}
