"""PURE: why a stack that came up has no GPU nodes, or is about to lose them, although its settings want some."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from capacity import ttl
from capacity.cause import Cause, Sorted
from capacity.held import Held

# Reads a setting as the stack's file, or Pulumi.yaml, has it.
Config = Callable[[str], Any]
_GIVEN_BACK = (
    "the run is done and its GPU nodes were given back (gpuScaleToZeroAfterJob): a changed training/, train* or job* "
    "setting, or jobRunId"
)


def over(config: Config, *, env: str, now: datetime) -> Sorted | None:
    """Where the time that nodes may live has passed: no `up` makes them any more, and AWS takes away what is there."""
    until = str(config("ttlUntil") or "")
    if not ttl.is_over(until, now=now):
        return None
    return _stop(f"ttlUntil {until} has passed, and with it the GPU nodes: `efactl up --env {env}` with a longer --ttl")


def missing(config: Config, held: Held, *, env: str, trains: bool, now: datetime) -> Sorted | None:
    """After an `up` that went well; None where the nodes are there. `trains`: the run is judged next, and needs none
    where it is done."""
    if config("gpuExistingGroup"):
        return None
    if held.group:
        return over(config, env=env, now=now)
    if str(config("gpuScaleToZeroAfterJob")).lower() == "true" and held.run:
        return None if trains else _stop(f"{_GIVEN_BACK}, and `efactl up -s {held.stack}` bring them back for another")
    return over(config, env=env, now=now) or _stop(
        f"its GPU group wants no nodes, and gpuNodes is {config('gpuNodes')}: .state/up-{held.stack}.events has what "
        "the engine said"
    )


def _stop(what_to_do: str) -> Sorted:
    return Sorted(cause=Cause.SETTING, retry="stop", what_to_do=what_to_do)
