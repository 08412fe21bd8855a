"""`efactl runs`: the records of runs, on this machine and in S3: a list, one of them, what separates two."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from efactl import run_diff_text, runs_text
from efactl.exit_codes import ExitCode
from efactl.region_stacks import region_stacks
from efactl.run_sources import check_stack, sources
from efactl.stack import FOLDER, Stack
from workload.errors import BadInputError, ReportedError
from workload.recorded_run import RecordedRun
from workload.run_choice import NO_VERDICT, WHERE, belongs, selected
from workload.run_diff import alike, compared
from workload.run_movement import first_different_step, movements
from workload.run_records import Found, find, the_one


def found_in(given: Sequence[str] | None, stack: str | None) -> Found:
    """As `workload.run_records.find`; what cannot be read is told on standard error.

    Raises BadInputError for a stack that has neither a file nor a run.
    """
    with sources(given, stack) as asked:
        found = find(asked.places, may_be_absent=not asked.given)
    found = dataclasses.replace(found, unread=(*found.unread, *asked.unread))
    for line in found.unread:
        print(f"not read: {line}", file=sys.stderr)
    if stack is not None and not found.unread and not any(run.stack == stack for run in found.runs):
        check_stack(stack)
    return found


def where(stack: str) -> Mapping[str, Any] | None:
    """The settings that say where a stack is; None of one that is no more."""
    try:
        known = Stack(stack)
    except BadInputError:
        return None
    return {name: known.config(name) for name in WHERE}


def runs_elsewhere(found: Sequence[RecordedRun], env: str) -> str:
    """Where the runs of an environment are that has none of its own; empty where it has, or is none."""
    of_stacks = {run.stack for run in found}
    try:
        there = [] if env in of_stacks else [one.name for one in region_stacks(env).values() if one.name in of_stacks]
    except BadInputError:
        return ""
    return f"environment {env} has runs of {', '.join(there)}: name one with -s" if there else ""


def runs(asked: argparse.Namespace) -> ExitCode:
    found = found_in(asked.places, asked.stack)
    if asked.action == "list":
        return _list(found, asked)
    if asked.action == "show":
        return _show(the_one(found.runs, asked.run), as_json=asked.json)
    return _diff(found, asked)


def _list(found: Found, asked: argparse.Namespace) -> ExitCode:
    place = where(asked.stack) if asked.stack else None
    chosen = selected(found.runs, stack=asked.stack, where=place, verdict=asked.verdict, limit=asked.limit)
    if asked.json:
        facts = [run.as_json() for run in chosen]
        print(json.dumps({"runs": facts, "unread": found.unread, "comparisons": found.comparisons}, indent=2))
    elif chosen:
        for line in runs_text.rows(chosen):
            print(line)
    else:
        print(_none(found, asked.stack))
    if asked.stack and asked.verdict in (None, NO_VERDICT) and (count := _of_nobody(found, asked.stack, place)):
        print(f"not listed: {count} run{'s'[: count > 1]} of which nothing tells the stack", file=sys.stderr)
    if asked.stack and (advice := runs_elsewhere(found.runs, asked.stack)):
        print(advice, file=sys.stderr)
    if found.comparisons and not asked.json:
        count = len(found.comparisons)
        print(f"not listed: the runs of {count} comparison{'s'[: count > 1]}; --from names one", file=sys.stderr)
    return ExitCode.FAILED if found.unread else ExitCode.OK


def _of_nobody(found: Found, stack: str, place: Mapping[str, Any] | None) -> int:
    """How many left neither a record nor the name of their stack, and so may be this one's too."""
    return sum(bool(run.problem) and run.stack is None and not belongs(run, stack, place) for run in found.runs)


def _none(found: Found, stack: str | None) -> str:
    if found.runs:
        return f"none of {len(found.runs)} runs is asked for"
    if found.unread:
        return "no runs where it could be looked"
    return f"no runs: `efactl up{f' -s {stack}' if stack else ''}` makes one"


def _show(run: RecordedRun, *, as_json: bool) -> ExitCode:
    _must_be_whole(run)
    if as_json:
        print(json.dumps(run.record, indent=2))
        return ExitCode.OK
    for line in runs_text.run_lines(run, _defaults()):
        print(line)
    return ExitCode.OK


def _diff(found: Found, asked: argparse.Namespace) -> ExitCode:
    a, b = the_one(found.runs, asked.a), the_one(found.runs, asked.b)
    _must_be_whole(a)
    _must_be_whole(b)
    if a.id == b.id:
        raise BadInputError(f"A and B are the same run, {a.id}")
    diff = compared(a, b)
    others = [run for run in found.runs if not run.problem and run.id not in (a.id, b.id)]
    # Two that are repetitions of each other are one side's as much as the other's.
    like = [] if alike(a, b) else [[run for run in others if alike(one, run)] for one in (a, b)]
    moved = movements(a, b, like_a=like[0] if like else [], like_b=like[1] if like else [])
    losses = first_different_step(a, b)
    if not asked.json:
        for line in run_diff_text.diff_lines(a, b, diff, moved, losses):
            print(line)
        return ExitCode.OK
    facts = {
        "a": a.as_json(),
        "b": b.as_json(),
        "conclusion": diff.conclusion,
        "causes": diff.causes,
        "unknown": diff.unknown,
        "same": diff.same,
        "differences": [one.as_json() for one in diff.differences],
        "notes": diff.notes,
        "movements": [one.as_json() for one in moved],
        "firstDifferentLoss": losses,
        "verdict": {"a": a.verdict, "b": b.verdict},
        "qualityPassed": {"a": a.quality, "b": b.quality},
    }
    print(json.dumps(facts, indent=2))
    return ExitCode.OK


def _must_be_whole(run: RecordedRun) -> None:
    if run.problem:
        raise ReportedError(f"run {run.id} has no record to read: {run.problem} ({run.place})")


def _defaults() -> dict[str, str]:
    """Of every setting, as a record has it."""
    declared = yaml.safe_load((FOLDER / "Pulumi.yaml").read_text(encoding="utf-8"))["config"]
    return {name: _as_recorded(one.get("default", "")) for name, one in declared.items()}


def _as_recorded(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
