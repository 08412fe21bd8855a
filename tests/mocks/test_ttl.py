"""What ends the GPU nodes at a fixed time: who may do what, and when it is there."""

import json
from typing import Any

import pytest

from infra.ttl import TtlArgs, TtlSchedule
from tests.mocks.recording import Recording, run
from tests.mocks.test_eks_ray import declared, key, waits_for

SCHEDULE = "aws:scheduler/schedule:Schedule"
ROLE = "aws:iam/role:Role"
POLICY = "aws:iam/rolePolicy:RolePolicy"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
UNTIL = "2026-12-01T18:00:00Z"
ARGS = TtlArgs(
    until=UNTIL,
    cluster_name="ray-dev",
    group_name="ray-dev-gpu",
    region="us-west-2",
    account="123456789012",
    partition="aws",
)


@pytest.fixture(scope="module")
def made() -> Recording:
    return run(lambda: TtlSchedule("ttl", ARGS).schedule.arn, {ROLE: {"arn": "arn:aws:iam::123456789012:role/ttl"}})


def test_once_at_that_time_the_group_is_scaled_as_the_program_itself_would(made: Recording) -> None:
    inputs = made.one(SCHEDULE).inputs
    assert inputs["scheduleExpression"] == "at(2026-12-01T18:00:00)"
    assert inputs["scheduleExpressionTimezone"] == "UTC"
    assert inputs["flexibleTimeWindow"] == {"mode": "OFF"}
    assert inputs["target"]["arn"] == "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"
    assert inputs["target"]["roleArn"] == "arn:aws:iam::123456789012:role/ttl"
    assert json.loads(inputs["target"]["input"]) == {
        "ClusterName": "ray-dev",
        "NodegroupName": "ray-dev-gpu",
        "ScalingConfig": {"MinSize": 0, "DesiredSize": 0, "MaxSize": 1},
    }
    assert inputs["actionAfterCompletion"] == "NONE", "a refresh still finds it"


def test_its_role_may_do_that_one_thing_to_that_one_group_and_is_eventbridges_alone(made: Recording) -> None:
    [statement] = json.loads(made.one(POLICY).inputs["policy"])["Statement"]
    assert statement == {
        "Effect": "Allow",
        "Action": "eks:UpdateNodegroupConfig",
        "Resource": "arn:aws:eks:us-west-2:123456789012:nodegroup/ray-dev/ray-dev-gpu/*",
    }
    [trusted] = json.loads(made.one(ROLE).inputs["assumeRolePolicy"])["Statement"]
    assert trusted["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trusted["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}


def test_it_is_allowed_before_it_is_there_and_all_of_it_is_the_components(made: Recording) -> None:
    assert made.one(POLICY).name in made.one(SCHEDULE).dependencies
    assert {resource.parent for resource in made[1:]} == {"ttl"}


def gpu_group(stack: Recording) -> Any:
    [group] = [group for group in stack.of_type(NODE_GROUP) if "gpu" in group.name]
    return group


def test_no_gpu_node_is_launched_before_its_end_is_set() -> None:
    stack = declared(ttlUntil=UNTIL)
    schedule = stack.one(SCHEDULE)
    assert key(schedule) in waits_for(stack, gpu_group(stack))
    assert key(schedule) not in waits_for(stack, stack.one("eks:index:Cluster")), "it keeps nothing else waiting"
    assert schedule.inputs["scheduleExpression"] == "at(2026-12-01T18:00:00)"
    asked = json.loads(schedule.inputs["target"]["input"])
    assert asked["NodegroupName"] == gpu_group(stack).inputs["nodeGroupName"]
    assert asked["ClusterName"] == gpu_group(stack).inputs["clusterName"]


def test_the_reservation_ends_with_the_nodes() -> None:
    for until in ("", "2026-12-24T00:00:00Z"):
        stack = declared(ttlUntil=UNTIL, capacityUntil=until)
        assert stack.one("aws:ec2/capacityReservation:CapacityReservation").inputs["endDate"] == UNTIL


@pytest.mark.parametrize("changes", [{}, {"ttlUntil": UNTIL, "gpuNodes": 0}])
def test_without_a_time_or_without_nodes_there_is_no_schedule(changes: dict[str, Any]) -> None:
    stack = declared(**changes)
    assert not stack.of_type(SCHEDULE)
    assert gpu_group(stack)
