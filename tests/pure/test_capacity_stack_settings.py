"""What a chosen place means for a stack's settings, and what is written down of the choice."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest

from capacity.answers import Reservation
from capacity.candidate import Candidate, Out
from capacity.choice import Choice
from capacity.place import Place
from capacity.request import Request
from capacity.stack_settings import answers, changes, held_zones, only_there
from workload.errors import BadInputError

NOW = datetime(2026, 12, 1, 12, 10, tzinfo=UTC)
A, B, C = (
    Place(region=zone[:-1], zone=zone, zone_id=zone_id)
    for zone, zone_id in (("us-west-2a", "usw2-az2"), ("us-west-2b", "usw2-az1"), ("us-east-2a", "use2-az1"))
)
FILE = {
    "aws:region": "us-west-2",
    "platform": "eks",
    "gpuZone": "us-west-2a",
    "gpuFallbackZones": ["us-west-2b"],
    "gpuInstanceType": "g6.12xlarge",
    "gpuNodes": "2",
    "capacity": "reserve",
    "capacityUntil": "2026-12-01T18:00:00Z",
}
HELD = Reservation(
    id="cr-0123456789abcdef0", owner="1", own=True, zone="us-west-2a", zone_id="usw2-az2", total=2, free=2
)


def choice(*, spot: bool = False, nodes: int = 2, **of_a: Any) -> Choice:
    found = [Candidate(**asdict(place), **(of_a if place == A else {})) for place in (A, C, B)]
    out = Candidate(region="eu-north-1", outs=((Out.QUOTA, "the quota is 0"),))
    asked = Request(nodes=nodes, spot=spot)
    return Choice(request=asked, facts=None, candidates=(*found, out), plan=(A, C, B))


def named(file: Mapping[str, Any]) -> dict[str, Any]:
    return {key if ":" in key else f"ray-train-efa:{key}": value for key, value in file.items()}


def changed(
    file: Mapping[str, Any],
    place: Place = A,
    chosen: Choice | None = None,
    until: str = "",
    base: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    found = changes(named(file), place, chosen or choice(), until=until, now=NOW, base=named(base or {}))
    return {one.key.removeprefix("ray-train-efa:"): one.value for one in found}


def test_a_stack_that_stands_there_already_is_left_as_it_is() -> None:
    assert changed(FILE) == {}
    assert changed({**FILE, "gpuNodes": 2}) == {}, "a number is its text"


def test_another_zone_brings_its_own_way_back() -> None:
    assert changed(FILE, B) == {"gpuZone": "us-west-2b", "gpuFallbackZones": ("us-west-2a",)}
    assert changed(FILE, C) == {"aws:region": "us-east-2", "gpuZone": "us-east-2a", "gpuFallbackZones": ()}


@pytest.mark.parametrize("was", ["", "2026-12-01T12:30:00Z", "2026-11-30T00:00:00Z", "soon"])
def test_a_reservation_that_would_be_over_gets_an_end_half_a_day_away(was: str) -> None:
    assert changed({**FILE, "capacityUntil": was}) == {"capacityUntil": "2026-12-02T01:00:00Z"}
    wished = "2026-12-01T16:10:00Z"
    assert changed({**FILE, "capacityUntil": was}, until=wished) == {"capacityUntil": wished}
    soon = "2026-12-01T12:35:00Z"
    assert changed({**FILE, "capacityUntil": was}, until=soon) == {"capacityUntil": soon}, "--ttl 30m"


def test_launching_straight_and_a_held_reservation_of_that_zone_stay_the_users_choice() -> None:
    assert changed({**FILE, "capacity": "none"}) == {}
    held = {**FILE, "capacity": HELD.id}
    full = choice(reservations=(Reservation(**{**asdict(HELD), "free": 0}),))
    assert changed(held, A, full) == {}, "our own nodes may be in it"
    assert changed(held, A, choice(reservations_told=False)) == {}, "AWS did not say which there are"
    assert changed(held, B)["capacity"] == "reserve"


def test_a_reservation_that_is_gone_is_not_held_any_longer() -> None:
    held = {**FILE, "capacity": HELD.id, "gpuPlacementGroup": ""}
    assert changed(held) == {"capacity": "reserve"}
    assert changed(held, base={"gpuPlacementGroup": "cluster"}) == {
        "capacity": "reserve",
        "gpuPlacementGroup": "cluster",
    }
    assert changed(held, base={"capacity": "none"}) == {"capacity": "none"}
    assert changed(held, base={"capacity": HELD.id, "gpuPlacementGroup": "theirs"}) == {"capacity": "reserve"}
    over = {**held, "capacityUntil": "2026-12-01T12:00:00Z"}
    assert changed(over)["capacityUntil"] == "2026-12-02T01:00:00Z"


def test_a_reservation_that_the_choice_rests_on_is_used() -> None:
    assert changed(FILE, A, choice(reservations=(HELD,), reservation=HELD.id)) == {"capacity": HELD.id}
    block = Reservation(
        **{**asdict(HELD), "kind": "capacity-block", "placement_group": "arn:aws:ec2::1:placement-group/g"}
    )
    assert changed(FILE, A, choice(reservations=(block,), reservation=block.id)) == {
        "capacity": HELD.id,
        "gpuMarket": "capacity-block",
        "gpuPlacementGroup": "g",
    }


def test_the_market_is_the_one_that_was_looked_at() -> None:
    assert changed(FILE, A, choice(spot=True)) == {"capacity": "none", "gpuMarket": "spot"}
    assert changed({**FILE, "capacity": "none", "gpuMarket": "spot"}) == {"gpuMarket": "on-demand"}


def test_type_and_number_are_those_that_the_place_was_chosen_for() -> None:
    assert changed(FILE, A, choice(nodes=3)) == {"gpuNodes": "3"}


def test_the_zones_of_a_network_bound_where_nodes_can_go() -> None:
    network = {**FILE, "vpcZones": ["us-west-2a", "us-west-2c"]}
    assert changed(network) == {"gpuFallbackZones": ()}
    with pytest.raises(
        BadInputError, match="vpcZones in the stack's file are us-west-2a, us-west-2c, without us-west-2b"
    ):
        changed(network, B)


@pytest.mark.parametrize(
    ("file", "place", "said"),
    [
        ({**FILE, "platform": "local"}, A, "is for platform local, not eks"),
        (FILE, Place(region="us-west-2", zone="us-west-2d", zone_id="usw2-az4"), "us-west-2d is not in the plan"),
    ],
)
def test_what_no_choice_is_for_is_refused(file: dict[str, Any], place: Place, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        changed(file, place)


def test_what_belongs_to_one_region_is_told_from_what_another_chooses_itself() -> None:
    settings = {
        f"ray-train-efa:{key}": "x" for key in ("vpcZones", "vpcId", "gpuPlacementGroup", "tags", "storagePath")
    }
    assert only_there(settings) == (["ray-train-efa:vpcZones"], ["vpcId", "gpuPlacementGroup"])
    assert only_there({"ray-train-efa:gpuPlacementGroup": "cluster"}) == ([], [])


def test_a_stack_holds_the_zones_of_its_reservations_and_of_its_gpu_nodes() -> None:
    group = {"type": "aws:eks/nodeGroup:NodeGroup", "urn": "urn:pulumi:dev::p::x::ray-gpu-group"}
    stack = {"type": "pulumi:pulumi:Stack", "urn": "urn:s", "outputs": {"gpuZone": "us-west-2a"}}
    kept = {
        "type": "aws:ec2/capacityReservation:CapacityReservation",
        "urn": "urn:r",
        "outputs": {"availabilityZone": "us-west-2b"},
    }
    assert held_zones([]) == held_zones([stack]) == set()
    assert held_zones([stack, group]) == {"us-west-2a"}
    assert held_zones([stack, group, kept]) == {"us-west-2a", "us-west-2b"}
    assert held_zones([{**kept, "external": True}]) == set()


def test_a_reader_finds_what_the_plan_rests_on_and_when_it_was_asked() -> None:
    lines = answers(A, choice(quota_vcpus=192, used_vcpus=48, usd_per_hour=9.2, spot_score=7), now=NOW)
    assert lines == [
        "us-west-2a (usw2-az2), asked 2026-12-01T12:10:00Z. It is not asked again.",
        "  1. us-west-2a (usw2-az2): quota 192 vCPU, 48 in use, spot score 7, $9.20 an hour",
        "  2. us-east-2a (use2-az1): nothing more was said",
        "  3. us-west-2b (usw2-az1): nothing more was said",
        "  1 other places were out: `efactl capacity` says why",
    ]
