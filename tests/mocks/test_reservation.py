"""What the reservation's component registers: what is made, what is only looked at, and what agrees."""

import dataclasses
import gc
from typing import Any

import pulumi
import pytest

from infra.reservation import Reservation, ReservationArgs
from tests.mocks.recording import Recording, run
from workload.errors import BadInputError

CAPACITY = "aws:ec2/capacityReservation:CapacityReservation"
GROUP = "aws:ec2/placementGroup:PlacementGroup"
ARN = "arn:aws:ec2:us-west-2:123456789012:placement-group/theirs"
HELD = {
    "instanceType": "g6.12xlarge",
    "availabilityZone": "us-west-2a",
    "instanceCount": 2,
    "instancePlatform": "Linux/UNIX",
    "placementGroupArn": "",
}


def args(**changes: Any) -> ReservationArgs:
    made = ReservationArgs(
        name="ray-dev",
        instance_type="g6.12xlarge",
        zone="us-west-2a",
        count=2,
        until="2026-12-01T18:00:00Z",
        placement_group="",
        reserve=True,
    )
    return dataclasses.replace(made, **changes)


def made_with(arguments: ReservationArgs, **answers: dict[str, Any]) -> tuple[Recording, dict[str, Any]]:
    """What is registered, and what comes out."""
    seen: dict[str, Any] = {}

    def program() -> Any:
        made = Reservation("capacity", arguments)
        seen["before_billing"] = list(made.before_billing)
        seen["none"] = (made.id is None, made.placement_group is None)
        return pulumi.Output.all(made.id, made.placement_group).apply(
            lambda both: seen.update(id=both[0], placement_group=both[1])
        )

    recording = run(program, {CAPACITY: answers.get("held", {}), GROUP: answers.get("group", {"name": "made-1"})})
    return recording, seen


def refused(arguments: ReservationArgs, **answers: dict[str, Any]) -> str:
    """With what message. What the failure leaves behind is collected here, where pytest keeps asyncio's word of it."""
    try:
        made_with(arguments, **answers)
    except pulumi.RunError as error:
        told = str(error)
    else:
        told = ""
    pulumi.runtime.test(lambda: None)()  # type: ignore[no-untyped-call]
    gc.collect()
    return told


def test_capacity_is_reserved_for_our_nodes_alone_and_ends_on_the_date_given() -> None:
    recording, seen = made_with(args())
    made = recording.one(CAPACITY)
    assert made.parent == "capacity"
    assert dict(made.inputs) == {
        "availabilityZone": "us-west-2a",
        "instanceType": "g6.12xlarge",
        "instanceCount": 2,
        "instancePlatform": "Linux/UNIX",
        "instanceMatchCriteria": "targeted",
        "endDateType": "limited",
        "endDate": "2026-12-01T18:00:00Z",
        "tags": {"Name": "ray-dev"},
    }
    assert seen["id"] == f"{made.name}-id"
    assert [type(resource).__name__ for resource in seen["before_billing"]] == ["CapacityReservation"]
    assert recording.of_type(GROUP) == []


def test_a_group_made_here_holds_the_reservation_and_the_nodes() -> None:
    recording, seen = made_with(
        args(placement_group="cluster"), group={"name": "made-1", "arn": "arn:made-1", "strategy": "cluster"}
    )
    assert recording.one(GROUP).inputs["strategy"] == "cluster"
    assert recording.one(GROUP).parent == "capacity"
    assert recording.one(CAPACITY).inputs["placementGroupArn"] == "arn:made-1"
    assert recording.one(GROUP).name in recording.one(CAPACITY).dependencies
    assert seen["placement_group"] == "made-1"


def test_a_group_that_is_there_holds_the_reservation_and_is_not_made() -> None:
    recording, seen = made_with(
        args(placement_group="theirs"), group={"name": "theirs", "arn": ARN, "strategy": "cluster"}
    )
    assert recording.of_type(GROUP) == []
    assert recording.one(CAPACITY).inputs["placementGroupArn"] == ARN
    assert seen["placement_group"] == "theirs"


def test_a_group_that_cannot_hold_a_reservation_is_refused() -> None:
    group = {"name": "theirs", "arn": ARN, "strategy": "spread"}
    assert "strategy spread" in refused(args(placement_group="theirs"), group=group)


def test_a_changed_group_makes_another_reservation_before_the_old_one_goes() -> None:
    request = made_with(args())[0].one(CAPACITY).request
    assert list(request.replaceOnChanges) == ["placementGroupArn"]
    assert not request.deleteBeforeReplace


@pytest.mark.parametrize("group", ["", "cluster", "theirs"])
def test_without_a_reservation_nothing_is_reserved_targeted_or_waited_for(group: str) -> None:
    recording, seen = made_with(args(reserve=False, placement_group=group), group={"name": group, "strategy": "spread"})
    assert recording.of_type(CAPACITY) == []
    assert len(recording.of_type(GROUP)) == (1 if group == "cluster" else 0)
    assert seen["none"] == (True, not group)
    assert seen["before_billing"] == []


def test_a_held_reservation_is_looked_at_and_never_made() -> None:
    recording, seen = made_with(args(reserve=False, held="cr-0123456789abcdef0"), held=HELD)
    assert [resource.name for resource in recording] == ["capacity"]
    assert seen["id"] == "cr-0123456789abcdef0"
    assert len(seen["before_billing"]) == 1, "one that is not there stops what bills"


def test_a_held_reservation_in_a_group_goes_with_that_group() -> None:
    answers: dict[str, Any] = {"held": {**HELD, "placementGroupArn": ARN}, "group": {"name": "theirs", "arn": ARN}}
    _, seen = made_with(args(reserve=False, held="cr-1", placement_group="theirs"), **answers)
    assert (seen["id"], seen["placement_group"]) == ("cr-1", "theirs")
    assert "set gpuPlacementGroup to theirs" in refused(args(reserve=False, held="cr-1"), **answers)


def test_a_held_reservation_that_does_not_match_is_refused() -> None:
    elsewhere = {**HELD, "availabilityZone": "us-west-2b"}
    said = refused(args(reserve=False, held="cr-1"), held=elsewhere)
    assert "us-west-2b, the nodes are in us-west-2a" in said


def test_a_held_reservation_is_not_in_a_group_that_is_yet_to_be_made() -> None:
    with pytest.raises(BadInputError, match="gpuPlacementGroup"):
        made_with(args(reserve=False, held="cr-1", placement_group="cluster"), held=HELD)
