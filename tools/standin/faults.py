"""What a scenario has go wrong, at the moment in which it does."""

import itertools
from collections.abc import Mapping
from typing import Any

from tools.standin import durations, tokens
from tools.standin.account import Account
from tools.standin.clock import Clock
from tools.standin.errors import AwsError
from tools.standin.kinds import Kind
from tools.standin.scenario import Fault, Scenario
from tools.standin.wire import pick

# What AWS says where a scenario gives no words.
MESSAGES = {
    "InsufficientInstanceCapacity": "There is no Spot or On-Demand capacity available that matches your request.",
    "VcpuLimitExceeded": "You have requested more vCPU capacity than your current vCPU limit of 0 allows for the "
    "instance bucket that the specified instance type belongs to.",
    "ThrottlingException": "Rate exceeded",
    "RequestLimitExceeded": "Request limit exceeded.",
    "ExpiredToken": "The security token included in the request is expired",
    "UnauthorizedOperation": "You are not authorized to perform this operation.",
}
_THROTTLES = ("Throttling", "ThrottlingException", "RequestLimitExceeded")


def _next(account: Account, scenario: Scenario, token: str, operation: str, urn: str) -> Fault | None:
    """The first fault that meets this call, all that match having counted it."""
    found = None
    with account.open() as records:
        for at, fault in enumerate(scenario.faults):
            if fault.meets(token=token, operation=operation, urn=urn):
                number = records.add(f"fault:{at}")
                within = fault.skip < number and (not fault.times or number <= fault.skip + fault.times)
                found = found or (fault if within else None)
    return found


def before(account: Account, scenario: Scenario, clock: Clock, *, token: str, operation: str, urn: str) -> None:
    """Raises what this call meets. Throttling is met again by each of the SDK's own retries, until they are used up."""
    _take_away(account, scenario)
    with account.open() as records:
        number = records.add("calls")
    if scenario.expire_after and number > scenario.expire_after:
        raise AwsError("ExpiredToken", MESSAGES["ExpiredToken"])
    for attempt in itertools.count():
        fault = _next(account, scenario, token, operation, urn)
        if fault is None:
            return
        if fault.code not in _THROTTLES or attempt == durations.THROTTLED:
            message = fault.message or MESSAGES.get(fault.code, fault.code)
            if fault.partial:
                raise AwsError(fault.code, message, slow=fault.silence, partial=fault.partial)
            clock.wait(fault.silence)
            raise AwsError(fault.code, message)
        clock.wait(min(20.0, 0.1 * 2**attempt))


def lagging(
    kind: Kind, inputs: Mapping[str, Any], scenario: Scenario, account: Account, clock: Clock, urn: str
) -> None:
    """Waits for what the call refers to, where AWS has not seen its creation everywhere yet."""
    for refers in kind.refers:
        if not pick(inputs, refers.path):
            continue
        for attempt in itertools.count():
            fault = _next(account, scenario, refers.token, "use", urn)
            if fault is None:
                break
            if not refers.patient or attempt == durations.PATIENCE:
                what = tokens.kind_of(refers.token)
                raise AwsError(refers.missing, f"The {what} of {refers.path} does not exist")
            clock.wait(durations.PAUSE)


def _take_away(account: Account, scenario: Scenario) -> None:
    """What was deleted outside Pulumi, once for each type. With a cluster goes all that is in it."""
    for name in scenario.gone:
        with account.open() as records:
            if records.number(f"gone:{name}"):
                continue
            records.add(f"gone:{name}")
            taken = [entry for entry in records.everything() if tokens.kind_of(entry.token) == name]
            clusters = {entry.id for entry in taken if entry.token == tokens.CLUSTER}
            groups = {entry.outputs["vpcConfig"]["clusterSecurityGroupId"] for entry in taken if entry.id in clusters}
            for entry in records.everything():
                inside = entry.inputs.get("clusterName") in clusters or entry.id in groups
                owned = entry.outputs.get("owner", "").partition(":")[0] in clusters
                if inside or owned or entry in taken:
                    records.remove(entry.token, entry.id)
