"""PURE: how many times one arm's figure is the other's, and how sure that is."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

CONFIDENCE = 0.95
# Student's t, 97.5 % quantile, for 1, 2, ... degrees of freedom; more than the last are taken as the last.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
# Beyond it exp() has no float; an interval as wide says nothing anyway.
_LARGEST_LOG = 700.0


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """`value` is the geometric mean of `pairs`, the ratios by repeat; `low` to `high` its interval of 95 %."""

    value: float
    low: float
    high: float
    pairs: tuple[float, ...]

    @property
    def inside_noise(self) -> bool:
        """Whether the interval has 1 in it: no difference is shown."""
        return self.low <= 1.0 <= self.high

    def as_json(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "confidence": CONFIDENCE,
            "pairs": list(self.pairs),
            "insideNoise": self.inside_noise,
        }


def paired_ratio(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """From figures above 0, two of each at least; those of one repeat have the same place in both.

    The mean of the logarithms of the ratios, and its interval by Student's t: each repeat's pair ran one after the
    other, so that what changes from repeat to repeat is in both and falls out.
    """
    logs = [math.log(one / other) for one, other in zip(first, second, strict=True)]
    mean = statistics.fmean(logs)
    half = t_quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(
        value=math.exp(mean),
        low=math.exp(max(mean - half, -_LARGEST_LOG)),
        high=math.exp(min(mean + half, _LARGEST_LOG)),
        pairs=tuple(math.exp(log) for log in logs),
    )


def t_quantile(degrees: int) -> float:
    """97.5 % of Student's t are below it."""
    return _T[min(degrees, len(_T)) - 1]
