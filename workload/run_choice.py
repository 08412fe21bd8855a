"""PURE: which of the recorded runs are meant: those of a stack, of a verdict, the last good one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workload.recorded_run import RecordedRun, at

# Settings that say where a stack is: they tell the runs of two stacks apart where a record does not name its own.
WHERE = ("platform", "gpuZone", "eksName", "eksExistingCluster", "kubeContext", "kubeNamespace", "kubeClusterId")
NO_VERDICT = "none"


def selected(
    runs: Sequence[RecordedRun],
    *,
    stack: str | None = None,
    where: Mapping[str, Any] | None = None,
    verdict: str | None = None,
    limit: int | None = None,
) -> list[RecordedRun]:
    """In the order that they have; `verdict` may be `NO_VERDICT`, `where` are the stack's settings of `WHERE`."""
    found = [
        run
        for run in runs
        if (stack is None or belongs(run, stack, where)) and (verdict is None or (run.verdict or NO_VERDICT) == verdict)
    ]
    return found if limit is None else found[:limit]


def belongs(run: RecordedRun, stack: str, where: Mapping[str, Any] | None) -> bool:
    """By the name on record; without one, by where the stack's settings are, if those are given."""
    if run.stack is not None:
        return run.stack == stack
    settings = at(run.record, "settings")
    if not where or not isinstance(settings, Mapping):
        return False
    return all(str(settings.get(name) or "") == str(where.get(name) or "") for name in WHERE)


def last_good(runs: Iterable[RecordedRun]) -> RecordedRun | None:
    """The newest whose transport is proven and whose model passed, of which it is on record what image it ran."""
    good = [(run.started, run.id, run) for run in runs if run.good and run.image_digests and run.started]
    return max(good, key=lambda one: one[:2])[2] if good else None
