"""PURE: what a preview would change, from the engine's event log: the run, or more than that."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from efactl.giving_back import is_giving_back
from efactl.stack import COMPARISON_GATE_TYPE, COMPARISON_TYPE, GATE_TYPE, JOB_TYPE

# The kinds that a run consists of, and those that measure beside it.
RUN_TYPES = (
    "pulumi-python:dynamic/workload:BandwidthPreflight",
    JOB_TYPE,
    GATE_TYPE,
)
BESIDE_TYPES = (
    COMPARISON_TYPE,
    COMPARISON_GATE_TYPE,
)
_STACK = "pulumi:pulumi:Stack"
# A provider is a program's configuration: the dynamic one is told every setting, another a token that was renewed.
_PROVIDER, _CONFIGURED = "pulumi:providers:", ("create", "update")
_STAYS = ("same", "read", "read-replacement", "refresh", "discard", "discard-replaced")
# A replacement is three steps; the one that makes the new resource names it.
_PARTS = {"create-replacement": "replace", "delete-replaced": "replace", "replace": "replace"}
# One that goes, or that is judged anew, runs nothing.
_MEASURES = ("create", "replace")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`targets` are URNs of the run's resources that change, and of the job whose gate does.

    The others name changes, as "create ray-cluster": `changes` are the run's own, `beyond` is what a run must not
    touch, `left_out` what measures beside it. `measures`: of that a comparison is to be made, which needs GPU nodes.
    `gives_back`: nothing is to run, and what is `beyond` gives GPU nodes back.
    """

    targets: tuple[str, ...]
    changes: tuple[str, ...]
    beyond: tuple[str, ...]
    left_out: tuple[str, ...]
    measures: bool
    gives_back: bool


def plan_of(events: Iterable[Mapping[str, Any]]) -> Plan:
    """From the events of a preview of the whole stack (`pulumi preview --event-log`)."""
    changes: dict[str, tuple[str, str]] = {}
    beyond: list[Mapping[str, Any]] = []
    jobs_that_stay: list[str] = []
    for event in events:
        step = (event.get("resourcePreEvent") or {}).get("metadata")
        if step is None:
            continue
        if step["op"] in _STAYS or step["type"] == _STACK:
            if step["op"] == "same" and step["type"] == JOB_TYPE:
                jobs_that_stay.append(step["urn"])
            continue
        if step["type"].startswith(_PROVIDER) and step["op"] in _CONFIGURED:
            continue
        if step["type"] not in (*RUN_TYPES, *BESIDE_TYPES):
            beyond.append(step)
        changes[step["urn"]] = (step["type"], _PARTS.get(step["op"], step["op"]))
    named = {urn: f"{op} {urn.rpartition('::')[2]}" for urn, (_, op) in changes.items()}
    due = tuple(urn for urn, (kind, _) in changes.items() if kind in RUN_TYPES)
    # What is no target keeps its old inputs in the state, and by the job's inputs its gate's failure is told.
    judged = tuple(jobs_that_stay) if any(kind == GATE_TYPE for kind, _ in changes.values()) else ()
    beside = tuple(named[urn] for urn, (kind, _) in changes.items() if kind in BESIDE_TYPES)
    others = tuple(dict.fromkeys(named[step["urn"]] for step in beyond))
    measures = any(kind == COMPARISON_TYPE and op in _MEASURES for kind, op in changes.values())
    runs = measures or any(changes[urn][0] != GATE_TYPE for urn in due)
    return Plan(
        targets=(*judged, *due),
        changes=tuple(named[urn] for urn in due),
        beyond=others,
        left_out=beside,
        measures=measures,
        gives_back=not runs and is_giving_back(beyond),
    )
