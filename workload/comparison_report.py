"""PURE: a comparison for readers: lines of text, and JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from workload.comparison import WARM_UP_STEPS, Comparison, failures, result_of
from workload.ratio import Ratio
from workload.verdict import Verdict

SCHEMA = "ray-train-efa/comparison/1"
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def lines(comparison: Comparison, min_ratio: float | None = None) -> Iterator[str]:
    """With `min_ratio` also whether it is reached."""
    first, second = comparison.arms
    yield f"{first.name} against {second.name}: {comparison.status}"
    yield f"{comparison.repeats} runs of each, {comparison.steps} steps a run, the first {WARM_UP_STEPS} not counted"
    for arm in comparison.arms:
        settings = " ".join(f"{name}={value}" for name, value in sorted(arm.env.items())) or "the job's own environment"
        yield f"  {arm.name}: {settings}, expected {arm.expect}"
    yield ""
    if comparison.runs:
        yield from _runs(comparison)
        yield ""
    yield from comparison.reasons
    if (ratio := comparison.ratio) is not None:
        yield f"tokens/s: {in_words(ratio, first.name, second.name)}"
        yield f"  by repeat: {', '.join(_number(pair) for pair in ratio.pairs)}"
        if min_ratio is not None:
            missed = failures(result_of(comparison), min_ratio)
            yield "; ".join(missed) or f"  at least {min_ratio:g}, as demanded"
    if sizes := comparison.size_ratios:
        yield ""
        yield "all-reduce bus bandwidth, medians in GB/s; all sums right"
        rows = [
            [_size(one.size), *(_number(one.medians[arm.name]) for arm in comparison.arms), _interval(one.ratio)]
            for one in sizes
        ]
        yield from _table(["size", first.name, second.name, "ratio (95 %)"], rows)


def in_words(ratio: Ratio, first: str, second: str) -> str:
    """A difference is claimed only where the interval is on one side of 1."""
    if ratio.inside_noise:
        told = f"the ratio is {_interval(ratio)}, which is inside the noise"
        return f"no difference shown between {first} and {second}: {told}"
    if ratio.value > 1:
        return f"{first} is {_interval(ratio)} times as fast as {second}"
    turned = Ratio(value=1 / ratio.value, low=1 / ratio.high, high=1 / ratio.low, pairs=())
    return f"{second} is {_interval(turned)} times as fast as {first}"


def as_json(comparison: Comparison, min_ratio: float | None = None) -> dict[str, Any]:
    ratio = comparison.ratio
    judged = {"min": min_ratio, "reasons": failures(result_of(comparison), min_ratio)}
    return {
        "schema": SCHEMA,
        "status": comparison.status,
        "reasons": list(comparison.reasons),
        "repeats": comparison.repeats,
        "steps": comparison.steps,
        "warmUpSteps": WARM_UP_STEPS,
        "arms": [
            {
                **arm.as_json(),
                "stepSeconds": comparison.median(arm.name, lambda run: run.step_seconds),
                "tokensPerSecond": comparison.median(arm.name, lambda run: run.tokens_per_second),
            }
            for arm in comparison.arms
        ],
        "ratio": ratio.as_json() if ratio else None,
        **({} if min_ratio is None else {"minRatio": judged}),
        "busBandwidth": [
            {"bytes": one.size, "gbs": dict(one.medians), "ratio": one.ratio.as_json()}
            for one in comparison.size_ratios
        ],
        "runs": [
            {
                "arm": run.arm,
                "repeat": run.repeat,
                "submissionId": run.submission_id,
                "verdict": _verdict(run.verdict),
                "nodes": run.hosts,
                "ranks": run.ranks,
                "stepSeconds": run.step_seconds,
                "tokensPerSecond": run.tokens_per_second,
                "record": run.record,
            }
            for run in comparison.runs
        ],
        "allReduces": [
            {
                "arm": one.arm,
                "repeat": one.repeat,
                "submissionId": one.submission_id,
                "verdict": _verdict(one.verdict),
                "rows": [dict(row) for row in one.rows],
                "record": one.record,
            }
            for one in comparison.all_reduces
        ],
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {"expect": verdict.expect, "value": verdict.value, "reasons": list(verdict.reasons)}


def _runs(comparison: Comparison) -> Iterator[str]:
    rows = [
        [
            str(run.repeat),
            run.arm,
            f"{run.step_seconds:.4f}",
            f"{run.tokens_per_second:,.0f}",
            f"{run.verdict.expect} {run.verdict.value}",
            run.submission_id,
        ]
        for run in comparison.runs
    ]
    for arm in comparison.arms:
        seconds = comparison.median(arm.name, lambda run: run.step_seconds)
        tokens = comparison.median(arm.name, lambda run: run.tokens_per_second)
        if seconds is not None and tokens is not None:
            rows.append(["median", arm.name, f"{seconds:.4f}", f"{tokens:,.0f}", "", ""])
    yield from _table(["repeat", "arm", "step s", "tokens/s", "transport", "job"], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _interval(ratio: Ratio) -> str:
    return f"{_number(ratio.value)} (95 %: {_number(ratio.low)} to {_number(ratio.high)})"


def _number(value: float) -> str:
    return f"{value:.3f}" if 0.1 <= value < 10 else f"{value:.3g}"


def _size(size: int) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"
