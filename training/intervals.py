"""Sums over stretches of time that overlap. No torch here."""

from collections.abc import Iterable

Interval = tuple[float, float]
"""Begin and end."""


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time, in order and without overlaps."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    return sum(end - begin for begin, end in union(intervals))


def uncovered(intervals: Iterable[Interval], by: Iterable[Interval]) -> float:
    """How long something of `intervals` goes on while nothing of `by` does."""
    covers = list(by)
    return length([*intervals, *covers]) - length(covers)
