"""The log groups that EKS makes by itself."""

from collections.abc import Mapping
from typing import Any

from tools.standin import tokens
from tools.standin.account import Entry
from tools.standin.kinds import Call


def write(call: Call, cluster: str, inputs: Mapping[str, Any], *, last: bool = False) -> None:
    """EKS makes the log group of a cluster that logs, where there is none, and leaves it behind."""
    if not inputs.get("enabledClusterLogTypes"):
        return
    group = f"/aws/eks/{cluster}/cluster"
    if call.records.get(tokens.LOG_GROUP, group) is None:
        _make(call, group)
    if last and call.scenario.late_logs:
        call.records.add(_late(group))


def deleted(call: Call) -> None:
    """EKS's service-linked role may make groups: what a cluster that is gone still has to say makes its own anew."""
    if waiting := call.records.number(_late(call.id)):
        call.records.add(_late(call.id), -waiting)
        _make(call, call.id)


def _make(call: Call, group: str) -> None:
    outputs = {"name": group, "arn": call.arn("logs", f"log-group:{group}")}
    entry = Entry(token=tokens.LOG_GROUP, id=group, region=call.region, inputs={"name": group}, outputs=outputs)
    call.records.put(entry)


def _late(group: str) -> str:
    return f"late:{group}"
