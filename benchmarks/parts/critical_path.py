"""PURE: the longest chain through steps that need each other, and the chain that a run really took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter


@dataclass(frozen=True, kw_only=True)
class Step:
    """`needs` are the names of steps without which it cannot begin."""

    name: str
    seconds: float
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Span:
    """When something really began and ended, in seconds on one clock."""

    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


def length(steps: Sequence[Step]) -> float:
    return sum(step.seconds for step in steps)


def longest_chain(steps: Sequence[Step]) -> list[Step]:
    """From a step that needs nothing to the one that ends last, each beginning as soon as what it needs is there."""
    by_name = {step.name: step for step in steps}
    ends: dict[str, float] = {}
    for name in TopologicalSorter({step.name: step.needs for step in steps}).static_order():
        ends[name] = max((ends[need] for need in by_name[name].needs), default=0.0) + by_name[name].seconds
    return [by_name[name] for name in _backwards(ends, {step.name: step.needs for step in steps})]


def taken(spans: Mapping[str, Span], waits_for: Mapping[str, Sequence[str]]) -> list[str]:
    """Of what ended last, the one that it waited for last, and so on back to the begin; in the order of time.

    What has no span of its own does not count.
    """
    ends = {name: span.ended for name, span in spans.items()}
    return _backwards(ends, {name: [one for one in waits_for.get(name, ()) if one in ends] for name in ends})


def _backwards(ends: Mapping[str, float], needs: Mapping[str, Sequence[str]]) -> list[str]:
    chain = [max(ends, key=ends.__getitem__)]
    while before := needs[chain[-1]]:
        chain.append(max(before, key=ends.__getitem__))
    return chain[::-1]
