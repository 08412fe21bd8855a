"""PURE: which of a run's attempts counts: its ranks are judged, and its steps are those that were timed."""

from collections.abc import Mapping, Sequence
from typing import Any

from workload.rank_evidence import whole


def counting_attempt(attempts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The newest whose ranks say that they trained a step; where none says so, the last; {} of none.

    An attempt that came after it found all steps done: it evaluated, exported and reported.
    """
    trained = [attempt for attempt in attempts if _trained(attempt.get("ranks"))]
    return ([{}, *attempts, *trained])[-1]


def _trained(ranks: Any) -> bool:
    if not isinstance(ranks, list):
        return False
    return any((whole(rank.get("trained_steps")) or 0) > 0 for rank in ranks if isinstance(rank, Mapping))
