"""PURE: how speed, quality and verdict moved from one run to another, and how sure that is."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workload.counting_attempt import counting_attempt
from workload.ratio import t_quantile
from workload.recorded_run import RecordedRun, at, mappings, number

# Of the normal distribution: where its 90th percentile lies, and how much wider its median spreads than its mean.
_P90, _OF_MEDIAN = 1.2816, 1.2533
# training/measure.py times so many of an attempt's steps apart.
_WARM_UP_STEPS = 3


@dataclass(frozen=True, kw_only=True)
class Noise:
    """A ratio and its interval of 95 %, and what they are from."""

    value: float
    low: float
    high: float
    source: str

    @property
    def covers_no_change(self) -> bool:
        return self.low <= 1.0 <= self.high


@dataclass(frozen=True, kw_only=True)
class Movement:
    """A figure of both runs; `unit` is part of no JSON name. `ratio` is b / a, None where a is not above 0."""

    name: str
    a: float | None
    b: float | None
    unit: str = ""
    noise: Noise | None = None

    @property
    def ratio(self) -> float | None:
        if self.a is None or self.b is None or self.a <= 0:
            return None
        ratio = self.b / self.a
        return ratio if math.isfinite(ratio) else None

    def as_json(self) -> dict[str, Any]:
        noise = self.noise
        return {
            "name": self.name,
            "a": self.a,
            "b": self.b,
            "unit": self.unit or None,
            "ratio": self.ratio,
            "noise": noise
            and {
                "ratio": noise.value,
                "low": noise.low,
                "high": noise.high,
                "from": noise.source,
                "insideNoise": noise.covers_no_change,
            },
        }


def movements(
    a: RecordedRun, b: RecordedRun, *, like_a: Sequence[RecordedRun], like_b: Sequence[RecordedRun]
) -> list[Movement]:
    """Those figures that at least one of the runs has. `like_a` are repetitions of `a`, itself not among them."""
    found = [_speed(a, b, like_a, like_b), *(_figure(name, unit, keys, a, b) for name, unit, keys in _FIGURES)]
    found += _own_figures(a, b)
    found.append(Movement(name="peak memory", a=_peak(a), b=_peak(b), unit="bytes"))
    return [one for one in found if one.a is not None or one.b is not None]


def speed_noise(
    a: RecordedRun, b: RecordedRun, like_a: Sequence[RecordedRun], like_b: Sequence[RecordedRun]
) -> Noise | None:
    """From run to run where each side has repetitions, else from step to step within the two runs, else none."""
    speeds_a, speeds_b = _speeds([a, *like_a]), _speeds([b, *like_b])
    if len(speeds_a) > 1 and len(speeds_b) > 1:
        return _between_runs(speeds_a, speeds_b)
    errors = _step_error(a), _step_error(b)
    ratio = Movement(name="", a=a.tokens_per_second, b=b.tokens_per_second).ratio
    if errors[0] is None or errors[1] is None or not ratio or ratio <= 0:
        return None
    half = 1.96 * math.hypot(errors[0], errors[1])
    return _noise(math.log(ratio), half, "step to step within the two runs")


def first_different_step(a: RecordedRun, b: RecordedRun) -> int | None:
    """The first step whose losses are not the same to the last bit; 0 where nothing can be compared, None where all
    that both have are."""
    losses_a, losses_b = _losses(a), _losses(b)
    common = sorted(losses_a.keys() & losses_b.keys())
    if not common:
        return 0
    return next((step for step in common if losses_a[step] != losses_b[step]), None)


_FIGURES = (
    ("step, median", "s", ("throughput", "stepSeconds", "median")),
    ("step, p90", "s", ("throughput", "stepSeconds", "p90")),
    ("MFU", "", ("throughput", "mfu")),
    ("tokens a step", "", ("throughput", "tokensPerStep")),
    ("held-out loss before", "", ("evaluation", "lossBefore")),
    ("held-out loss after", "", ("evaluation", "lossAfter")),
    ("perplexity after", "", ("evaluation", "perplexityAfter")),
    ("whole job", "s", ("timings", "total_s")),
    ("cost an hour", "USD", ("cost", "hourlyUsd")),
)


def _speed(a: RecordedRun, b: RecordedRun, like_a: Sequence[RecordedRun], like_b: Sequence[RecordedRun]) -> Movement:
    noise = speed_noise(a, b, like_a, like_b)
    return Movement(name="tokens/s", a=a.tokens_per_second, b=b.tokens_per_second, noise=noise)


def _figure(name: str, unit: str, keys: Sequence[str], a: RecordedRun, b: RecordedRun) -> Movement:
    return Movement(name=name, a=number(at(a.record, *keys)), b=number(at(b.record, *keys)), unit=unit)


def _own_figures(a: RecordedRun, b: RecordedRun) -> Iterator[Movement]:
    """Parts of a step, and what the task measures by itself."""
    for name in _names(a, b, "throughput", "splitSeconds"):
        yield _figure(f"step: {name}", "s", ("throughput", "splitSeconds", name, "median"), a, b)
    for name in _names(a, b, "evaluation", "metrics"):
        yield _figure(f"{name} after", "", ("evaluation", "metrics", name, "after"), a, b)


def _names(a: RecordedRun, b: RecordedRun, *keys: str) -> list[str]:
    both = [at(run.record, *keys) for run in (a, b)]
    return list(dict.fromkeys(str(name) for one in both if isinstance(one, Mapping) for name in one))


def _peak(run: RecordedRun) -> float | None:
    peaks = at(run.record, "memory", "peakBytesByRank")
    values = [known for value in (peaks.values() if isinstance(peaks, Mapping) else ()) if (known := number(value))]
    return max(values, default=None)


def _speeds(runs: Sequence[RecordedRun]) -> list[float]:
    return [speed for run in runs if (speed := run.tokens_per_second) is not None and speed > 0]


def _between_runs(a: Sequence[float], b: Sequence[float]) -> Noise | None:
    """Welch's interval of the difference of the logarithms' means."""
    logs = [[math.log(speed) for speed in side] for side in (a, b)]
    parts = [statistics.variance(side) / len(side) for side in logs]
    error = sum(parts)
    below = sum(part**2 / (len(side) - 1) for part, side in zip(parts, logs, strict=True))
    degrees = max(1, int(error**2 / below)) if below > 0 else 1
    shift = statistics.fmean(logs[1]) - statistics.fmean(logs[0])
    source = f"{len(a)} runs like A and {len(b)} like B"
    return _noise(shift, t_quantile(degrees) * math.sqrt(error), source)


def _step_error(run: RecordedRun) -> float | None:
    """The standard error of the logarithm of a run's median step, as its median and 90th percentile tell it."""
    seconds = at(run.record, "throughput", "stepSeconds")
    median, p90 = number(at(seconds, "median")), number(at(seconds, "p90"))
    steps = _timed_steps(run)
    if median is None or p90 is None or not 0 < median <= p90 or steps < 2:
        return None
    return _OF_MEDIAN * math.log(p90 / median) / _P90 / math.sqrt(steps)


def _timed_steps(run: RecordedRun) -> int:
    resumed = number(counting_attempt(mappings(run.record.get("attempts"))).get("resumedFromStep"))
    steps = number(at(run.record, "arguments", "steps")) or 0
    profile = run.record.get("profile")
    profiled = len(profile) if isinstance(profile, Mapping) else 0
    return int(steps - (resumed or 0)) - _WARM_UP_STEPS - profiled


def _losses(run: RecordedRun) -> dict[int, float]:
    rows = run.record.get("losses")
    pairs = [row for row in rows if isinstance(row, list) and len(row) == 2] if isinstance(rows, list) else []
    return {
        int(step): loss
        for step, loss in ((number(first), number(second)) for first, second in pairs)
        if step is not None and loss is not None
    }


def _noise(shift: float, half: float, source: str) -> Noise | None:
    try:
        return Noise(value=math.exp(shift), low=math.exp(shift - half), high=math.exp(shift + half), source=source)
    except OverflowError:
        return None
