"""How a creation or a change ends, where it does not end well at once."""

from dataclasses import replace

from tools.standin.account import Entry
from tools.standin.clock import CancelledError, Clock
from tools.standin.errors import AwsError, PartialError
from tools.standin.kinds import Call, Kind


def refusal(kind: Kind, call: Call) -> AwsError | None:
    """Raises a refusal at once; returns one that shows only later, of a thing that is there by then."""
    try:
        kind.refuse(call)
    except AwsError as error:
        if error.partial:
            return error
        raise
    return None


def with_status(entry: Entry, status: str) -> Entry:
    """A node group that failed runs nothing."""
    outputs = {**entry.outputs, "status": status} if "status" in entry.outputs else entry.outputs
    return replace(entry, outputs=outputs, hidden={**entry.hidden, "running": {}, "status": status})


def refused_late(entry: Entry, error: AwsError, now: float) -> Entry:
    """What is there although it failed, with why: others than who waits for it can ask before that time is over."""
    failed = with_status(entry, error.partial)
    why = {"code": error.code, "message": error.message, "from": now, "until": now + error.slow}
    return replace(failed, hidden={**failed.hidden, "refused": why})


def pass_time(clock: Clock, entry: Entry, seconds: float, timeout: float) -> None:
    try:
        clock.wait(min(seconds, timeout))
    except CancelledError:
        raise PartialError(with_status(entry, "CREATING"), "Cancelled", "context canceled") from None
    if seconds > timeout:
        message = (
            f"timeout while waiting for state to become 'ACTIVE' (last state: 'CREATING', timeout: {timeout:.0f}s)"
        )
        raise PartialError(with_status(entry, "CREATING"), "Timeout", message)
