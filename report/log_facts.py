"""PURE: what a job's log says of each step, which its record sums up."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workload.job_record import MARK
from workload.progress import plain

_TRAIN = "[train] "
_STEP = re.compile(r"step (\d{1,12})/\d+ loss (\S+) tokens/s (\S+)")
_EVALUATION = re.compile(r"eval (before|after|at step (\d{1,12})): loss (\S+)")
_PLAN = re.compile(r"memory plan: ([\d.]+) GiB a rank at (.{1,200}?) \(")
_ROOM = re.compile(r"of ([\d.]+) GiB: (?:fits|does not fit) (.{1,60})$")


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """What training said before its first step; bytes of one rank."""

    peak: float
    moment: str
    room: float | None
    gpu: str | None
    said: str


@dataclass(kw_only=True)
class LogFacts:
    """Of a step that ran twice, after a failure, the last word counts. `evaluations` are those between the first step
    and the last. `failed` is the record that a job prints when it fails."""

    tokens_per_second: dict[int, float] = field(default_factory=dict)
    losses: dict[int, float] = field(default_factory=dict)
    evaluations: dict[int, float] = field(default_factory=dict)
    before: float | None = None
    after: float | None = None
    plan: MemoryPlan | None = None
    failed: Mapping[str, Any] | None = None


def read(lines: Iterable[str]) -> LogFacts:
    facts = LogFacts()
    for line in lines:
        if line.startswith(MARK):
            facts.failed = _failed(line)
        elif _TRAIN in line:
            said = plain(line)
            if said.startswith(_TRAIN):
                _take(facts, said.removeprefix(_TRAIN))
    return facts


def _take(facts: LogFacts, said: str) -> None:
    if step := _STEP.match(said):
        number = int(step[1])
        for kept, shown in ((facts.losses, step[2]), (facts.tokens_per_second, step[3])):
            if (value := _finite(shown)) is not None:
                kept[number] = value
    elif evaluated := _EVALUATION.match(said):
        value = _finite(evaluated[3])
        if value is None:
            return
        if evaluated[2]:
            facts.evaluations[int(evaluated[2])] = value
        elif evaluated[1] == "before":
            facts.before = value
        else:
            facts.after = value
    elif planned := _PLAN.match(said):
        facts.plan = _plan(planned, said)


def _plan(planned: "re.Match[str]", said: str) -> MemoryPlan | None:
    peak = _finite(planned[1])
    if peak is None:
        return None
    room = _ROOM.search(said)
    of_gpu = _finite(room[1]) if room else None
    return MemoryPlan(
        peak=peak * 2**30,
        moment=planned[2],
        room=None if of_gpu is None else of_gpu * 2**30,
        gpu=room[2] if room else None,
        said=said,
    )


def _failed(line: str) -> Mapping[str, Any] | None:
    try:
        record = json.loads(line.removeprefix(MARK))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("status") == "failed" else None


def _finite(shown: str) -> float | None:
    try:
        value = float(shown)
    except ValueError:
        return None
    return value if abs(value) < 1e30 else None
