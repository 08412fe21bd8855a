"""The watch beside an `up`: which node group it means, and when it is certain."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from capacity import launch_watch
from capacity.cause import Cause
from capacity.launch_watch import LaunchWatch

FAILED = {
    "StatusCode": "Failed",
    "StatusMessage": "We currently do not have sufficient g6.12xlarge capacity in the Availability Zone you requested",
    "StartTime": datetime(2026, 11, 1, tzinfo=UTC),
}


class FakeAws:
    """EKS and Auto Scaling of one node group."""

    def __init__(self) -> None:
        self.group: dict[str, Any] | None = None
        self.activities: list[dict[str, Any]] = []
        self.exceptions = type("Exceptions", (), {"ResourceNotFoundException": KeyError})

    def describe_nodegroup(self, **_: str) -> dict[str, Any]:
        if self.group is None:
            raise KeyError
        return {"nodegroup": {"resources": {"autoScalingGroups": [{"name": "asg"}]}, **self.group}}

    def describe_scaling_activities(self, **_: str) -> dict[str, Any]:
        return {"Activities": self.activities}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    fake = FakeAws()
    monkeypatch.setattr(launch_watch, "client", lambda *_, **__: fake)
    yield fake


def watch(**more: Any) -> tuple[LaunchWatch, list[str]]:
    said: list[str] = []
    return LaunchWatch(cluster="ray", group="ray-gpu", region="us-west-2", say=said.append, **more), said


def test_the_watch_waits_for_a_group_and_is_certain_after_two_looks(aws: FakeAws) -> None:
    watching, said = watch()
    watching.look()
    aws.group = {"nodegroupArn": "new", "status": "CREATING"}
    watching.look()
    aws.activities = [{"ActivityId": "1", **FAILED}]
    watching.look()
    assert watching.trouble is None
    assert "no nodes for ray-gpu yet" in said[0]
    aws.activities.append({"ActivityId": "2", **FAILED, "StatusCode": "InProgress"})
    watching.look()
    assert watching.trouble is None, "it is being tried again"
    aws.activities[1]["StatusCode"] = "Failed"
    watching.look()
    watching.look()
    assert watching.trouble is not None
    assert watching.trouble.sorted.cause is Cause.CAPACITY


def test_a_group_that_is_about_to_go_says_nothing_of_its_successor(aws: FakeAws) -> None:
    aws.group = {
        "nodegroupArn": "old",
        "status": "CREATE_FAILED",
        "health": {"issues": [{"code": "VcpuLimitExceeded"}]},
    }
    aws.activities = [{"ActivityId": "1", **FAILED}]
    watching, _ = watch(another=True)
    for _ in range(3):
        watching.look()
    assert watching.trouble is None
    aws.group = {"nodegroupArn": "new", "status": "CREATING"}
    for _ in range(2):
        watching.look()
    assert watching.trouble is not None


def test_what_a_running_group_went_through_before_does_not_count(aws: FakeAws) -> None:
    aws.group = {"nodegroupArn": "mine", "status": "ACTIVE"}
    aws.activities = [{"ActivityId": "1", **FAILED}]
    watching, _ = watch()
    for _ in range(3):
        watching.look()
    assert watching.trouble is None


def test_an_answer_of_another_shape_is_said_and_the_watch_goes_on(
    aws: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.group = {"nodegroupArn": "new", "status": "CREATING"}
    aws.activities = [{"StatusCode": "Failed"}]
    monkeypatch.setattr(launch_watch, "INTERVAL_S", 0.01)
    watching, said = watch()
    watching.start()
    deadline = time.monotonic() + 30
    while not said and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "cannot be watched: an answer cannot be read" in said[0]
    aws.activities = [{"ActivityId": str(number), **FAILED} for number in (1, 2)]
    while watching.trouble is None and time.monotonic() < deadline:
        time.sleep(0.01)
    watching.stop()
    assert watching.trouble is not None
