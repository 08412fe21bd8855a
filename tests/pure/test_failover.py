"""Where a bring-up goes next: by what was refused, and what each region's stack holds."""

from dataclasses import replace
from typing import Any

import pytest

from capacity.cause import Cause, Retry, Sorted
from capacity.failover import NODES_RUN, Attempt, Bring, Destroy, End, Situation, next_action, ordered
from capacity.held import Held, held
from capacity.place import Place

A1, A2, B1 = (
    Place(region=region, zone=f"{region}{letter}", zone_id=f"{region}-{letter}")
    for region, letter in (("us-west-2", "a"), ("us-west-2", "b"), ("us-east-2", "a"))
)
PLAN = (A1, A2, B1)
CAUSES = {
    "next-zone": Cause.CAPACITY,
    "next-region": Cause.UNAVAILABLE,
    "wait": Cause.THROTTLED,
    "stop": Cause.PERMISSION,
}


def refused(place: Place, retry: Retry, cause: Cause | None = None) -> Attempt:
    return Attempt(place=place, refused=Sorted(cause=cause or CAUSES[retry], retry=retry, what_to_do="do it"))


def up(place: Place) -> Attempt:
    return Attempt(place=place, refused=None)


def has(region: str, things: int = 5, **more: Any) -> Held:
    return Held(stack=f"dev-{region}", region=region, things=things, **more)


def situation(*attempts: Attempt, there: tuple[Held, ...] = (), **more: Any) -> Situation:
    mine = list(dict.fromkeys(one.place.region for one in attempts))
    return Situation(plan=PLAN, attempts=attempts, held={one.region: one for one in there}, **{"mine": mine, **more})


def test_the_first_place_is_tried_first() -> None:
    assert next_action(situation()) == Bring(place=A1)


def test_without_capacity_the_next_zone_and_then_the_next_region_is_tried() -> None:
    west = has("us-west-2")
    assert next_action(situation(refused(A1, "next-zone"), there=(west,))) == Bring(place=A2)
    both = refused(A1, "next-zone"), refused(A2, "next-zone")
    assert next_action(situation(*both, there=(west,))) == Bring(place=B1), "what is left behind waits for its end"


def test_a_region_that_does_not_answer_is_left_with_all_its_zones() -> None:
    assert next_action(situation(refused(A1, "next-region"))) == Bring(place=B1)


def test_once_it_runs_what_was_given_up_is_ended_and_nothing_else() -> None:
    came = (refused(A1, "next-zone"), refused(A2, "next-zone"), up(B1))
    west, east, other = has("us-west-2"), has("us-east-2"), has("eu-west-1")
    assert next_action(situation(*came, there=(west, east, other))) == Destroy(region="us-west-2")
    cleared = situation(*came, there=(has("us-west-2", 0), east, other), destroyed=["us-west-2"])
    assert next_action(cleared) == End(place=B1)


def test_what_cannot_be_ended_is_tried_twice_and_then_told() -> None:
    came = (refused(A1, "next-region"), up(B1))
    once = situation(*came, there=(has("us-west-2"),), destroyed=["us-west-2"])
    assert next_action(once) == Destroy(region="us-west-2")
    twice = replace(once, destroyed=["us-west-2", "us-west-2"])
    assert next_action(twice) == End(place=B1, left=("us-west-2",))


def test_with_the_plan_used_up_everything_is_ended() -> None:
    came = tuple(refused(place, "next-zone") for place in PLAN)
    there = (has("us-west-2"), has("us-east-2"))
    assert next_action(situation(*came, there=there)) == Destroy(region="us-west-2")
    assert next_action(situation(*came, there=there[1:])) == Destroy(region="us-east-2")
    assert next_action(situation(*came)) == End()


@pytest.mark.parametrize("cause", [Cause.PERMISSION, Cause.SETTING, Cause.CREDENTIALS, Cause.UNKNOWN, Cause.QUOTA])
def test_what_no_other_place_mends_stops_and_what_was_made_stays_for_the_next_run(cause: Cause) -> None:
    stop = refused(A1, "stop", cause)
    assert next_action(situation(stop, there=(has("us-west-2"),))) == End(refused=stop.refused)
    later = situation(
        refused(A1, "next-region"), refused(B1, "stop", cause), there=(has("us-west-2"), has("us-east-2"))
    )
    assert next_action(later) == Destroy(region="us-west-2"), "what was given up before is ended all the same"


def test_what_asks_to_wait_is_tried_again_with_longer_pauses_and_then_left() -> None:
    waits = refused(A1, "wait")
    assert next_action(situation(waits)) == Bring(place=A1, after=30.0)
    assert next_action(situation(waits, waits)) == Bring(place=A1, after=60.0)
    assert next_action(situation(waits, waits, waits)) == Bring(place=B1)


def test_nodes_that_run_are_never_moved() -> None:
    there = has("us-west-2", group="ready", zone=A1.zone, reserved=A1.zone)
    assert next_action(situation(refused(A1, "next-zone"), there=(there,))) == End(refused=NODES_RUN)
    given_up = situation(refused(A1, "next-region"), up(B1), there=(there,))
    assert next_action(given_up) == End(place=B1, left=("us-west-2",)), "nor ended unasked"


def test_a_node_group_that_failed_in_this_very_zone_is_made_anew() -> None:
    there = has("us-west-2", group="failed", urn="urn:gpu", zone=A1.zone)
    assert next_action(situation(there=(there,))) == Bring(place=A1, replace="urn:gpu")
    moved = situation(refused(A1, "next-zone"), there=(there,))
    assert next_action(moved) == Bring(place=A2), "another zone makes another one anyway"
    coming = situation(there=(replace(there, group="creating"),))
    assert next_action(coming) == Bring(place=A1), "it may still come"


def test_a_file_system_goes_with_its_zone() -> None:
    there = has("us-west-2", one_zone=True)
    lost = situation(refused(A1, "next-zone"), there=(there,))
    assert next_action(lost) == Destroy(region="us-west-2")
    empty = replace(lost, held={"us-west-2": has("us-west-2", 0)}, destroyed=["us-west-2"])
    assert next_action(empty) == Bring(place=A2)


def test_a_quota_that_holds_one_reservation_and_not_two_is_made_room_in_once() -> None:
    there = has("us-west-2", reserved=A1.zone)
    full = refused(A2, "stop", Cause.QUOTA)
    came = (refused(A1, "next-zone"), full)
    assert next_action(situation(*came, there=(there,))) == Destroy(region="us-west-2")
    room = situation(*came, there=(has("us-west-2", 0),), destroyed=["us-west-2"])
    assert next_action(room) == Bring(place=A2)
    again = situation(*came, full, there=(has("us-west-2", 3),), destroyed=["us-west-2"])
    assert next_action(again) == End(refused=full.refused)


def test_what_is_there_comes_first_also_where_its_own_capacity_puts_its_zone_out_of_the_plan() -> None:
    east = has("us-east-2", reserved="us-east-2c", zone="us-east-2c")
    first, *rest = ordered(PLAN, {"us-east-2": east})
    assert (first.region, first.zone) == ("us-east-2", "us-east-2c")
    assert rest == list(PLAN)
    begun = ordered(PLAN, {"us-east-2": has("us-east-2")}, ["us-west-2", "us-east-2"])
    assert begun == (B1, A1, A2), "the region last begun in"
    assert ordered(PLAN, {"us-east-2": has("us-east-2")}) == PLAN, "a network alone is no reason"


def resource(token: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": token, "urn": f"urn:pulumi:dev::p::{token}::{name}", "id": "id", **more}


GROUP = "aws:eks/nodeGroup:NodeGroup"


@pytest.mark.parametrize(
    ("outputs", "errors", "expected"),
    [
        ({"status": "ACTIVE", "scalingConfig": {"desiredSize": 2}}, [], "ready"),
        ({"status": "ACTIVE", "scalingConfig": {"desiredSize": 0}}, [], ""),
        ({"status": "CREATING", "scalingConfig": {"desiredSize": 2}}, ["cancelled"], "creating"),
        ({"scalingConfig": {"desiredSize": 2}}, ["cancelled"], "creating"),
        ({"status": "CREATE_FAILED", "scalingConfig": {"desiredSize": 2}}, ["no"], "failed"),
        ({"status": "DEGRADED", "scalingConfig": {"desiredSize": 2}}, [], "ready"),
    ],
)
def test_a_state_tells_how_its_gpu_group_is(outputs: dict[str, Any], errors: list[str], expected: str) -> None:
    state = [
        resource("aws:ec2/vpc:Vpc", "net"),
        resource("pulumi:providers:aws", "aws"),
        resource(GROUP, "ray-system-group", outputs={"status": "ACTIVE", "scalingConfig": {"desiredSize": 1}}),
        resource(GROUP, "ray-gpu-group", outputs=outputs, initErrors=errors),
        resource(GROUP, "ray-gpu-group", outputs={"status": "ACTIVE"}, delete=True),
    ]
    found = held("dev-us-west-2", state, region="us-west-2", zone="us-west-2a")
    assert (found.group, found.things, found.run, found.one_zone) == (expected, 4, False, False)


def test_a_reservation_in_the_state_names_its_zone() -> None:
    token = "aws:ec2/capacityReservation:CapacityReservation"
    state = [resource(token, "r", outputs={"availabilityZone": "us-west-2b"})]
    assert held("s", state, region="us-west-2", zone="us-west-2a").reserved == "us-west-2b"
    looked_up = [resource(token, "r", external=True, outputs={"availabilityZone": "us-west-2b"})]
    assert held("s", looked_up, region="us-west-2", zone="us-west-2a").reserved == ""
