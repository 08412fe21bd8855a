"""PURE: the resources of a preview, and what each waits for."""

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from workload.errors import ReportedError

STACK = "pulumi:pulumi:Stack"


class GraphError(ReportedError):
    """A graph that cannot be drawn."""


@dataclass(frozen=True, kw_only=True)
class Resource:
    """`after` are the URNs of all that it waits for; `values` those of them that an input, or its provider, is made of.

    `custom` is False for a component.
    """

    urn: str
    type: str
    parent: str
    custom: bool
    after: frozenset[str]
    values: frozenset[str]

    @property
    def kind(self) -> str:
        """NodeGroup of aws:eks/nodeGroup:NodeGroup."""
        return self.type.rpartition(":")[2]

    @property
    def is_provider(self) -> bool:
        return self.type.startswith("pulumi:providers:")


def read(preview: Mapping[str, Any]) -> dict[str, Resource]:
    """By URN, from the JSON of `pulumi preview --json`."""
    states = [step["newState"] for step in preview["steps"] if step.get("newState")]
    known = {state["urn"] for state in states}
    resources = {state["urn"]: _resource(state, known) for state in states}
    for resource in resources.values():
        if missing := resource.after - known:
            raise GraphError(f"{resource.urn} waits for what the preview does not have: {', '.join(sorted(missing))}")
    return resources


def _resource(state: Mapping[str, Any], known: set[str]) -> Resource:
    by_property = (state.get("propertyDependencies") or {}).values()
    values = {urn for urns in by_property for urn in urns or ()}
    # URN::id. The engine's own default providers are not among the steps.
    provider = str(state.get("provider") or "").rpartition("::")[0]
    if provider in known:
        values.add(provider)
    return Resource(
        urn=state["urn"],
        type=state["type"],
        parent=state.get("parent", ""),
        custom=bool(state.get("custom")),
        after=frozenset(values | set(state.get("dependencies") or ())),
        values=frozenset(values),
    )


def depths(after: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """How many steps each node is from one that waits for nothing, by the longest way.

    Raises GraphError where nodes wait for each other.
    """
    found: dict[str, int] = {}
    try:
        for node in TopologicalSorter(after).static_order():
            found[node] = 1 + max((found[before] for before in after.get(node, ())), default=-1)
    except CycleError as error:
        raise GraphError(f"these wait for each other: {' -> '.join(error.args[1])}") from None
    return found


def reduced(after: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Without what is waited for anyway, through something else. Raises GraphError as `depths`."""
    order = depths(after)
    ancestors: dict[str, frozenset[str]] = {}
    for node in sorted(order, key=order.__getitem__):
        direct = after.get(node, frozenset())
        ancestors[node] = direct.union(*(ancestors[before] for before in direct))
    return {
        node: frozenset(before for before in direct if not any(before in ancestors[other] for other in direct))
        for node, direct in after.items()
    }
