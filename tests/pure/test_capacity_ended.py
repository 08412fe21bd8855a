"""What AWS has ended by itself, read off a stack's state."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from capacity.ended import may_give_back, needs_refresh

AT = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
BEFORE = AT - timedelta(seconds=1)


def resource(token: str, name: str = "one", **outputs: Any) -> dict[str, Any]:
    return {"type": token, "urn": f"urn:pulumi:dev::ray-train-efa::{token}::{name}", "outputs": outputs}


def group(nodes: int, name: str = "ray-gpu-group") -> dict[str, Any]:
    return resource("aws:eks/nodeGroup:NodeGroup", name, scalingConfig={"desiredSize": float(nodes)})


RESERVED = resource("aws:ec2/capacityReservation:CapacityReservation", endDate="2026-12-01T18:00:00Z")
UNLIMITED = resource("aws:ec2/capacityReservation:CapacityReservation", endDateType="unlimited")
SCHEDULED = resource("aws:scheduler/schedule:Schedule", scheduleExpression="at(2026-12-01T18:00:00)")
RUN = resource("pulumi-python:dynamic/workload:RayTrainJob", "train")


@pytest.mark.parametrize("state", [[RESERVED], [SCHEDULED, group(2)], [RESERVED, SCHEDULED, group(0)]])
def test_from_its_time_on_the_state_is_behind(state: list[dict[str, Any]]) -> None:
    assert not needs_refresh(state, now=BEFORE)
    assert needs_refresh(state, now=AT)


@pytest.mark.parametrize(
    "state",
    [
        [],
        [group(2)],
        [UNLIMITED],
        [SCHEDULED],
        [SCHEDULED, group(0)],
        [SCHEDULED, group(0), group(1, "ray-system-group")],
        [{**RESERVED, "external": True}],
        [{**RESERVED, "delete": True}],
    ],
)
def test_what_is_not_ended_or_known_already_needs_no_refresh(state: list[dict[str, Any]]) -> None:
    assert not needs_refresh(state, now=AT + timedelta(days=1))


def test_nodes_are_given_back_once_there_is_a_run() -> None:
    assert may_give_back([RUN, group(2)])
    held = resource("aws:ec2/capacityReservation:CapacityReservation", instanceCount=2.0)
    assert may_give_back([RUN, group(0), held]), "where giving them back was cut short"
    assert not may_give_back([group(2), held]), "a job that failed is not in the state"
    assert not may_give_back([RUN, group(0), group(1, "ray-system-group")])
