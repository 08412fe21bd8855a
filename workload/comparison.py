"""PURE: a controlled comparison: what its runs came to, as long as each is proven to be of its arm."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from workload.arms import Arms
from workload.ratio import Ratio, paired_ratio
from workload.verdict import Verdict

LEAST_REPEATS = 3
# training/measure.py leaves as many out of its figures.
WARM_UP_STEPS = 3
LEAST_STEPS = WARM_UP_STEPS + 5
SHOWN = 8

_NOT_PROVEN: tuple[Literal["refuted"], Literal["unproven"]] = ("refuted", "unproven")
Status = Literal["complete", "refuted", "unproven", "failed", "interrupted", "unfinished"]


@dataclass(frozen=True, kw_only=True)
class ArmRun:
    """One training job of an arm: `step_seconds` is the median of the steps after the warm-up; `record` a path."""

    arm: str
    repeat: int
    submission_id: str
    record: str
    verdict: Verdict
    hosts: int
    ranks: int
    step_seconds: float
    tokens_per_second: float


@dataclass(frozen=True, kw_only=True)
class AllReduce:
    """One bandwidth job of an arm; `rows` are its record's (bytes, busbw_gbs in GB/s, wrong, ...)."""

    arm: str
    repeat: int
    submission_id: str
    record: str
    verdict: Verdict
    hosts: int
    ranks: int
    rows: Sequence[Mapping[str, Any]]

    @property
    def bus_bandwidth(self) -> dict[int, float]:
        """GB/s by bytes; the slowest where a size was measured again."""
        slowest_last = sorted(self.rows, key=lambda row: -float(row["busbw_gbs"]))
        return {int(row["bytes"]): float(row["busbw_gbs"]) for row in slowest_last}


@dataclass(frozen=True, kw_only=True)
class SizeRatio:
    """Bus bandwidth at `size` bytes: each arm's median in GB/s, and the first arm's against the second's."""

    size: int
    medians: Mapping[str, float]
    ratio: Ratio


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two arms and the runs so far; `error` is what ended it too early, `interrupted` that somebody did."""

    arms: Arms
    repeats: int
    steps: int
    with_bandwidth: bool
    runs: tuple[ArmRun, ...] = ()
    all_reduces: tuple[AllReduce, ...] = ()
    error: str = ""
    interrupted: bool = False

    @property
    def status(self) -> Status:
        return self._judged()[0]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why there is no ratio; empty where there is one."""
        return self._judged()[1]

    @property
    def useless(self) -> bool:
        """Whether no further run can make a ratio of it."""
        return self.status not in ("complete", "unfinished")

    @property
    def planned(self) -> int:
        """Jobs, all-reduces included."""
        return self.repeats * len(self.arms) * (2 if self.with_bandwidth else 1)

    def of_arm(self, name: str) -> list[ArmRun]:
        """By repeat, in whatever order they ran."""
        return sorted((run for run in self.runs if run.arm == name), key=lambda run: run.repeat)

    def median(self, name: str, figure: Callable[[ArmRun], float]) -> float | None:
        figures = [figure(run) for run in self.of_arm(name)]
        return statistics.median(figures) if figures else None

    @property
    def ratio(self) -> Ratio | None:
        """Tokens/s of the first arm against the second's. None unless every run was proven to be of its arm."""
        if self.status != "complete":
            return None
        first, second = ([run.tokens_per_second for run in self.of_arm(arm.name)] for arm in self.arms)
        return paired_ratio(first, second)

    @property
    def size_ratios(self) -> list[SizeRatio]:
        """By size; empty where there is no `ratio`, or bandwidth was not measured."""
        if self.status != "complete" or not self.with_bandwidth:
            return []
        first, second = ([one.bus_bandwidth for one in self._all_reduces_of(arm.name)] for arm in self.arms)
        sizes = set.intersection(*(set(one) for one in (*first, *second)))
        return [
            SizeRatio(
                size=size,
                medians={
                    arm.name: statistics.median(one[size] for one in measured)
                    for arm, measured in zip(self.arms, (first, second), strict=True)
                },
                ratio=paired_ratio([one[size] for one in first], [one[size] for one in second]),
            )
            for size in sorted(sizes)
        ]

    def _all_reduces_of(self, name: str) -> list[AllReduce]:
        return sorted((one for one in self.all_reduces if one.arm == name), key=lambda one: one.repeat)

    def _judged(self) -> tuple[Status, tuple[str, ...]]:
        everything: tuple[ArmRun | AllReduce, ...] = (*self.runs, *self.all_reduces)
        for value in _NOT_PROVEN:
            if reasons := [line for one in everything if one.verdict.value == value for line in _unverified(one)]:
                return value, tuple(reasons)
        if reasons := [*self._unlike(), *self._wrong_sums()]:
            return "failed", tuple(reasons)
        if self.interrupted:
            return "interrupted", (f"interrupted after {len(everything)} of {self.planned} jobs",)
        if self.error:
            return "failed", (self.error,)
        if len(everything) < self.planned:
            return "unfinished", (f"{len(everything)} of {self.planned} jobs have been run",)
        return "complete", ()

    def _unlike(self) -> Iterator[str]:
        everything: tuple[ArmRun | AllReduce, ...] = (*self.runs, *self.all_reduces)
        if len({(one.ranks, one.hosts) for one in everything}) > 1:
            told = ", ".join(f"{one.arm} {one.repeat}: {one.ranks} ranks on {one.hosts} nodes" for one in everything)
            yield f"the runs are not alike ({told}): a node was lost or came back"

    def _wrong_sums(self) -> Iterator[str]:
        for one in self.all_reduces:
            where = f"arm {one.arm}, repeat {one.repeat} ({one.submission_id})"
            for row in one.rows:
                if wrong := int(row["wrong"]):
                    what = f"{wrong} elements of the sums of {int(row['bytes'])} bytes are wrong"
                    yield f"{where}: {what} (#wrong must be 0)"


def _unverified(one: ArmRun | AllReduce) -> Iterator[str]:
    what = "" if isinstance(one, ArmRun) else ", all-reduce"
    yield (
        f"arm {one.arm}, repeat {one.repeat}{what} ({one.submission_id}): transport {one.verdict.value}, "
        f"expected {one.verdict.expect}"
    )
    yield from (f"  {reason}" for reason in one.verdict.reasons[:SHOWN])
    if len(one.verdict.reasons) > SHOWN:
        yield f"  ... and {len(one.verdict.reasons) - SHOWN} more in {one.record}"


def result_of(comparison: Comparison) -> dict[str, Any]:
    """What a gate judges, in plain values: status and reasons, and of a complete one the ratio with its interval."""
    result: dict[str, Any] = {
        "status": comparison.status,
        "reasons": list(comparison.reasons),
        "arms": [arm.name for arm in comparison.arms],
    }
    if (ratio := comparison.ratio) is not None:
        result |= {key: ratio.as_json()[key] for key in ("value", "low", "high", "insideNoise")}
    return result


def failures(result: Mapping[str, Any], min_ratio: float | None) -> list[str]:
    """Why a `result_of` does not pass; empty where it does. Without `min_ratio` any ratio passes that is one."""
    if result["status"] != "complete":
        return list(result["reasons"])
    if min_ratio is None or result["low"] >= min_ratio:
        return []
    first, second = result["arms"]
    return [
        f"tokens/s of {first} are {result['value']:.3g} times those of {second}, by the 95 % interval at least "
        f"{result['low']:.3g}: below compareMinSpeedup {min_ratio:g}"
    ]
