"""PURE: whether GPU nodes that a stack declares are to be there now, by its guards and what it has run."""

from datetime import datetime

from infra.eks_settings import GuardSettings
from workload.errors import BadInputError

_LATER = (
    "set a later time (`pulumi config set ttlUntil 2026-12-01T18:00:00Z -s STACK`; for one of `efactl up --env ENV` "
    "also its --ttl 4h) or none (`pulumi config rm ttlUntil -s STACK`)"
)


def asks_for_last_run(guards: GuardSettings, *, now: datetime) -> bool:
    """Whether the decision needs to know what the stack ran last."""
    return guards.zero_after_job or guards.ttl_over(now=now)


def released_because(guards: GuardSettings, *, nodes: int, due: str, done: str, now: datetime) -> str:
    """Why the nodes are to be gone, "" where they are to be there. `due` and `done` are keys of runs: of the one that
    the settings ask for ("" where `train` is false), and of the last one that SUCCEEDED ("" for none).

    Raises BadInputError where a run is due past the time that its nodes may live.
    """
    if not nodes:
        return ""
    if guards.ttl_over(now=now):
        if due and due != done:
            raise BadInputError(
                f"ttlUntil {guards.ttl_until} has passed, and a run is due, which needs the GPU nodes: {_LATER}, or "
                "gpuNodes 0. Nothing was changed"
            )
        return f"ttlUntil {guards.ttl_until} has passed"
    if guards.zero_after_job and due and due == done:
        return "the run is done (gpuScaleToZeroAfterJob)"
    return ""


def note_of(reason: str, *, nodes: int, past: bool) -> str:
    """`past`: by ttlUntil, after which a run that is due brings nothing back."""
    back = (
        f"To have them back {_LATER}"
        if past
        else "Nodes and reservation come back with the next run that is due (a changed training/, train* or job* "
        "setting; jobRunId asks for the same again)"
    )
    return f"no GPU nodes although gpuNodes is {nodes}: {reason}. The run's result stays. {back}"
