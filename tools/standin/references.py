"""What things in an account name: it must be there, and cannot go while it is named."""

from collections.abc import Callable
from datetime import datetime

from tools.standin import durations, tokens
from tools.standin.account import Account, Entry, Records
from tools.standin.catalogue import KINDS, dependents
from tools.standin.clock import Clock
from tools.standin.errors import AwsError
from tools.standin.kinds import Call, Kind, Refers
from tools.standin.wire import pick

# Real seconds between looks, and how many, where modelled time does not pass by itself.
_LOOKS = 40
_LOOK = 0.05


def refuse_dangling(kind: Kind, call: Call) -> None:
    for refers in kind.refers:
        for value in pick(call.inputs, refers.path):
            if not _there(call.records, refers, str(value), call.account):
                what = tokens.kind_of(refers.token)
                raise AwsError(refers.missing, f"The {what} '{value}' of {refers.path} does not exist")


def _there(records: Records, refers: Refers, value: str, account: str) -> bool:
    if refers.by == "id":
        return records.get(refers.token, value) is not None
    # An ARN of another account, or of AWS, is not this account's to judge.
    if f":{account}:" not in value:
        return True
    return any(entry.outputs[refers.by] == value for entry in records.all(refers.token))


def used_by(records: Records, entry: Entry, date: datetime) -> AwsError | None:
    """Why AWS would not delete that thing now."""
    what = tokens.kind_of(entry.token)
    for token, refers in dependents(entry.token):
        name = entry.id if refers.by == "id" else entry.outputs[refers.by]
        for other in records.all(token):
            if KINDS[token].ended(other, date):
                continue
            if other.id != entry.id and name in pick(other.inputs, refers.path):
                message = f"The {what} '{entry.id}' has dependencies and cannot be deleted: {other.id}"
                return AwsError(refers.blocks, message)
    for interface in records.all(tokens.INTERFACE):
        if entry.id in (interface.inputs["subnetId"], *interface.inputs["securityGroups"]):
            message = f"The {what} '{entry.id}' has dependencies and cannot be deleted: {interface.id}"
            return AwsError("DependencyViolation", message)
    return None


def wait_until_unused(
    account: Account, clock: Clock, kind: Kind, id: str, keep: Callable[[Records, Entry], None]
) -> bool:
    """As the provider does: asks again while AWS says that the thing is in use, then gives up with what it said.

    False where there is no such thing.
    """
    deadline = clock.now() + durations.RETRIES.get(kind.token, 0.0)
    look = 0
    while True:
        moment = clock.moment()
        now = moment.now
        with account.open() as records:
            until = _expire_interfaces(records, now)
            entry = records.get(kind.token, id)
            if entry is None:
                return False
            refusal = used_by(records, entry, moment.date)
            if refusal is None:
                keep(records, entry)
                return True
        if now >= deadline or (clock.stands and until <= now and look >= _LOOKS):
            raise refusal
        look += 1
        clock.pass_until(min(until, deadline), _LOOK)


def _expire_interfaces(records: Records, now: float) -> float:
    """Removes interfaces whose time is over; when the next one's is, or 0."""
    waiting = []
    for interface in records.all(tokens.INTERFACE):
        until = interface.outputs.get("until")
        if until is not None and until <= now:
            records.remove(tokens.INTERFACE, interface.id)
        elif until is not None:
            waiting.append(until)
    return min(waiting, default=0.0)
