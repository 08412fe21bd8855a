"""Which places a choice takes, in what order, and how it says why."""

import dataclasses
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity import explain, table
from capacity.answers import Missing, Price, Quota, RegionAnswers, Reservation, TypeFacts, Usage, Zone
from capacity.cause import Cause, Sorted
from capacity.choice import Choice, choose
from capacity.place import Place
from capacity.price_list import price_in
from capacity.probe_answer import Probe
from capacity.request import Request
from workload.errors import BadInputError

FACTS = TypeFacts(name="g6.12xlarge", vcpus=48, gpus=4, gpu_name="L4", efa_interfaces=1)
REQUEST = Request(regions=("us-west-2", "us-east-1"))


def region(name: str = "us-west-2", letters: str = "abc", **changes: Any) -> RegionAnswers:
    zones = tuple(Zone(name=f"{name}{letter}", zone_id=f"{name}-az-{letter}") for letter in letters)
    whole = RegionAnswers(
        region=name,
        opt_in="opt-in-not-required",
        zones=zones,
        offered=tuple(zone.name for zone in zones),
        type=FACTS,
        quota=Quota(code="L-DB2E81BA", vcpus=192.0),
        usage=Usage(running_vcpus=0),
        price=Price(usd=4.6, as_of="2026-11-20", source="Price List API"),
    )
    return dataclasses.replace(whole, **changes)


def held(id: str = "cr-1", zone: str = "us-east-1a", **changes: Any) -> Reservation:
    whole = Reservation(id=id, owner="1", own=True, zone=zone, zone_id="", total=2, free=2)
    return dataclasses.replace(whole, **changes)


def probed(zone: str, outcome: Any, *, retry: Any = None) -> Probe:
    after = Sorted(cause=Cause.QUOTA, retry=retry, what_to_do="raise it") if retry else None
    place = Place(region=zone[:-1], zone=zone, zone_id=f"{zone[:-1]}-az-{zone[-1]}")
    return Probe(place=place, outcome=outcome, text=f"probe of {zone}", after=after)


def plan(choice: Choice) -> list[str]:
    return [place.zone for place in choice.plan]


def reasons(choice: Choice, zone: str) -> str:
    return "; ".join(next(one for one in choice.candidates if zone in (one.zone, one.region)).reasons)


def test_equal_places_stand_by_region_and_zone_id() -> None:
    choice = choose(REQUEST, [region(), region("us-east-1")])
    assert plan(choice) == ["us-east-1a", "us-east-1b", "us-east-1c", "us-west-2a", "us-west-2b", "us-west-2c"]


def test_zones_of_a_region_stay_together_though_another_region_lies_between() -> None:
    west = region(scores={"us-west-2-az-b": 9, "us-west-2-az-a": 1, "us-west-2-az-c": 2})
    east = region("us-east-1", scores={"us-east-1-az-a": 5})
    assert plan(choose(REQUEST, [west, east]))[:4] == ["us-west-2b", "us-west-2c", "us-west-2a", "us-east-1a"]


@pytest.mark.parametrize(
    ("better", "by"),
    [
        ({"reservations": (held(),)}, "by reservation: cr-1 of this account against none"),
        ({"price": Price(usd=4.0, as_of="2026-11-20", source="table")}, "by price: 8.00 USD an hour against 9.20"),
        ({"scores": {"us-east-1-az-a": 3}}, "by spot placement score: 3 of 10 against none"),
    ],
)
def test_what_decides_is_said(better: dict[str, Any], by: str) -> None:
    choice = choose(REQUEST, [region("us-east-1", letters="a", **better), region(letters="a")])
    assert plan(choice)[0] == "us-east-1a"
    assert by in "\n".join(explain.lines(choice))


def test_a_region_with_more_zones_to_fall_back_on_is_better() -> None:
    choice = choose(REQUEST, [region("us-east-1", letters="a"), region(letters="ab")])
    assert plan(choice) == ["us-west-2a", "us-west-2b", "us-east-1a"]
    assert "by other zones in the region: 1 against 0" in "\n".join(explain.lines(choice))


def test_an_own_reservation_is_better_than_a_shared_one() -> None:
    shared = region("us-east-1", reservations=(held(own=False, owner="2"),))
    own = region(reservations=(held("cr-2", "us-west-2c"),))
    assert plan(choose(REQUEST, [shared, own]))[0] == "us-west-2c"


def test_a_reservation_does_not_serve_spot() -> None:
    asked = dataclasses.replace(REQUEST, spot=True)
    choice = choose(asked, [region(reservations=(held(zone="us-west-2a"),), quota=Quota(code="L-3819A6DF", vcpus=0.0))])
    assert plan(choice) == []
    assert "quota L-3819A6DF is 0 vCPU" in reasons(choice, "us-west-2a")


def test_a_reservation_in_a_placement_group_says_which_setting_it_needs() -> None:
    one = held(zone="us-west-2a", placement_group="arn:aws:ec2:us-west-2:1:placement-group/pg-1")
    choice = choose(REQUEST, [region(reservations=(one,))])
    assert "set gpuPlacementGroup to it" in "; ".join(choice.of(choice.plan[0]).notes)
    assert "in placement group pg-1" in "\n".join(explain.lines(choice))


@pytest.mark.parametrize(("quota", "used", "fits"), [(96, 0, True), (95, 0, False), (192, 96, True), (192, 97, False)])
def test_headroom_is_held_against_the_vcpus_of_all_nodes(quota: int, used: int, fits: bool) -> None:
    answers = region(quota=Quota(code="L-DB2E81BA", vcpus=quota), usage=Usage(running_vcpus=used))
    assert bool(choose(REQUEST, [answers]).plan) is fits


def test_a_quota_that_no_usage_could_fit_is_out_though_usage_is_not_known() -> None:
    unknown = Missing(code="UnauthorizedOperation", text="not allowed")
    choice = choose(REQUEST, [region(quota=Quota(code="L-DB2E81BA", vcpus=64), usage=unknown)])
    assert choice.plan == ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"opt_in": "not-opted-in"}, "not enabled for this account"),
        ({"trouble": Missing(code="NoAnswer", text="nothing was heard")}, "NoAnswer: nothing was heard"),
        ({"zones": Missing(code="AuthFailure", text="no")}, "its zones were not told: AuthFailure"),
        ({"zones": ()}, "no zone of the usual kind"),
    ],
)
def test_a_region_without_zones_keeps_one_row_with_its_reason(changes: dict[str, Any], text: str) -> None:
    choice = choose(REQUEST, [region(**changes), region("us-east-1")])
    row = next(one for one in choice.candidates if one.region == "us-west-2")
    assert row.as_dict()["zone"] is None
    assert text in "; ".join(row.reasons)
    assert all(place.region == "us-east-1" for place in choice.plan)


def test_a_region_that_nobody_asked_has_a_row_too() -> None:
    assert "was not asked" in reasons(choose(REQUEST, [region()]), "us-east-1")


def test_a_zone_that_is_unavailable_is_out_and_one_that_is_impaired_comes_last() -> None:
    zones = tuple(
        Zone(name=f"us-west-2{letter}", zone_id=letter, state=state)
        for letter, state in (("a", "unavailable"), ("b", "impaired"), ("c", "available"))
    )
    choice = choose(REQUEST, [region(zones=zones)])
    assert plan(choice) == ["us-west-2c", "us-west-2b"]
    assert "marked the zone unavailable" in reasons(choice, "us-west-2a")


def test_a_probe_that_succeeded_comes_before_what_is_cheaper_and_one_refused_is_out() -> None:
    cheaper = Price(usd=4.0, as_of="2026-11-20", source="table")
    answers = [region(), region("us-east-1", price=cheaper)]
    probes = [probed("us-west-2a", "no", retry="next-zone"), probed("us-west-2b", "yes")]
    choice = choose(REQUEST, answers, probes)
    assert plan(choice)[:2] == ["us-west-2b", "us-west-2c"]
    assert "the probe was refused: probe of us-west-2a" in reasons(choice, "us-west-2a")


@pytest.mark.parametrize("own", [True, False])
def test_a_reservation_is_as_certain_as_a_probe_and_comes_first_where_other_places_were_probed(own: bool) -> None:
    answers = [region(), region("us-east-1", reservations=(held(own=own, owner="2"),))]
    choice = choose(REQUEST, answers, [probed(f"us-west-2{letter}", "yes") for letter in "abc"])
    assert plan(choice)[0] == "us-east-1a"
    assert "by reservation: cr-1 of" in "\n".join(explain.lines(choice))


def test_what_was_refused_for_all_of_a_region_puts_its_other_zones_out() -> None:
    probes = [probed("us-west-2a", "no", retry="stop"), *(probed(f"us-west-2{z}", "not-asked") for z in "bc")]
    choice = choose(REQUEST, [region(), region("us-east-1")], probes)
    assert {place.region for place in choice.plan} == {"us-east-1"}


def test_a_probe_without_an_end_is_a_note() -> None:
    choice = choose(REQUEST, [region(letters="a")], [probed("us-west-2a", "unknown")])
    assert choice.of(choice.plan[0]).notes == ("the probe: probe of us-west-2a",)


def test_a_type_in_no_table_takes_its_facts_from_any_region_that_has_it() -> None:
    asked = Request(instance_type="g9.12xlarge", regions=("us-west-2", "us-east-1"))
    facts = dataclasses.replace(FACTS, name="g9.12xlarge", vcpus=64)
    lacking = region(type=Missing(code="InvalidInstanceType", text="none"), offered=())
    choice = choose(asked, [lacking, region("us-east-1", type=facts)])
    assert choice.needed_vcpus == 128
    assert choice.as_dict()["type"]["gpus"] == 4


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (Missing(code="InvalidInstanceType", text="none"), "is known to EC2 in none of the regions that answered"),
        (dataclasses.replace(FACTS, efa_interfaces=0), "has no EFA"),
        (dataclasses.replace(FACTS, gpus=0), "has no GPU"),
    ],
)
def test_a_type_that_cannot_serve_is_an_error(facts: Any, text: str) -> None:
    asked = Request(instance_type="g9.12xlarge", regions=("us-west-2",))
    with pytest.raises(BadInputError, match=text):
        choose(asked, [region(type=facts)])


def test_where_no_region_answers_nothing_is_known_and_nothing_fails() -> None:
    asked = Request(instance_type="g9.12xlarge", regions=("us-west-2",))
    choice = choose(asked, [RegionAnswers(region="us-west-2", trouble=Missing(code="NoAnswer", text="silent"))])
    assert choice.as_dict()["needed_vcpus"] is None
    assert "No place can take them." in table.lines(choice)[-1]


def test_a_spot_price_is_that_of_the_zone() -> None:
    prices = {f"us-west-2{z}": Price(usd=usd, as_of="2026-11-30", source="spot") for z, usd in (("a", 3), ("b", 1))}
    asked = dataclasses.replace(REQUEST, spot=True, max_hourly=5.0)
    choice = choose(asked, [region(spot_prices=prices)])
    assert plan(choice) == ["us-west-2b"]
    assert "more than --max-hourly 5" in reasons(choice, "us-west-2a")
    assert "price is not known" in reasons(choice, "us-west-2c")


def test_zones_out_for_one_reason_share_a_row_of_the_table() -> None:
    lines = table.lines(choose(REQUEST, [region(quota=Quota(code="L-DB2E81BA", vcpus=0)), region("us-east-1")]))
    (row,) = [line for line in lines if "ask for 96" in line]
    assert row.split()[:5] == ["-", "us-west-2", "a,", "b,", "c"]


def test_what_is_not_known_is_said_once_with_its_places() -> None:
    unknown = Missing(code="AccessDenied", text="not allowed")
    lines = table.lines(choose(REQUEST, [region(quota=unknown), region("us-east-1", quota=unknown)]))
    (note,) = [line for line in lines if "the quota was not told" in line]
    assert "and 3 more" in note


def test_a_place_that_is_out_for_good_has_no_notes_in_the_table() -> None:
    unknown = Missing(code="AccessDenied", text="not allowed")
    lacks = region("us-east-1", letters="ab", offered=("us-east-1a",), price=unknown)
    (note,) = [line for line in table.lines(choose(REQUEST, [lacks])) if "the price was not told" in line]
    assert note.strip().startswith("us-east-1a: ")


def test_the_same_unknown_price_of_several_regions_is_one_note() -> None:
    prices = {name: price_in(name, "g9.48xlarge", {}) for name in ("us-west-2", "us-east-1")}
    lines = table.lines(choose(REQUEST, [region(name, price=price) for name, price in prices.items()]))
    (note,) = [line for line in lines if "the price was not told" in line]
    assert "and 3 more: the price was not told: there is no on-demand price of g9.48xlarge here" in note


missing = st.builds(Missing, code=st.sampled_from(["AccessDenied", "NoAnswer"]), text=st.just("no"))


@st.composite
def said_by(draw: st.DrawFn, name: str) -> RegionAnswers:
    """What a region can say of itself, each part missing now and then."""
    base = region(name, letters="".join(draw(st.sets(st.sampled_from("abc"), min_size=1))))
    assert not isinstance(base.zones, Missing)
    zones, ids = [zone.name for zone in base.zones], [zone.zone_id for zone in base.zones]

    def seldom(rare: st.SearchStrategy[Any], usual: st.SearchStrategy[Any]) -> Any:
        return draw(rare if draw(st.integers(0, 9)) == 9 else usual)

    price = st.builds(Price, usd=st.sampled_from([4.0, 5.0]), as_of=st.just("d"), source=st.just("s"))
    reserved = st.builds(
        held,
        st.sampled_from(["cr-1", "cr-2", "cr-3"]),
        st.sampled_from(zones),
        own=st.booleans(),
        free=st.integers(0, 3),
        stack=st.sampled_from(["", "dev"]),
    )
    reservations = st.lists(reserved, max_size=3, unique_by=lambda one: one.id).map(tuple)
    return dataclasses.replace(
        base,
        opt_in=seldom(st.just("not-opted-in"), st.sampled_from(["opted-in", ""])),
        trouble=seldom(missing, st.none()),
        offered=seldom(
            missing, st.sets(st.sampled_from(zones), min_size=len(zones) - 1).map(lambda s: tuple(sorted(s)))
        ),
        type=seldom(missing, st.just(FACTS)),
        quota=seldom(missing, st.builds(Quota, code=st.just("q"), vcpus=st.sampled_from([0.0, 96.0, 192.0]))),
        usage=seldom(missing, st.builds(Usage, running_vcpus=st.sampled_from([0, 96]))),
        reservations=seldom(missing, reservations),
        scores=seldom(missing, st.dictionaries(st.sampled_from(ids), st.integers(1, 3))),
        price=seldom(missing, price),
        spot_prices=seldom(missing, st.dictionaries(st.sampled_from(zones), price)),
    )


def shuffled(answers: list[RegionAnswers], seed: int) -> list[RegionAnswers]:
    """The same answers, with everything that has an order in another one."""
    mix = random.Random(seed)

    def mixed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(mix.sample(value, len(value)))
        return dict(mix.sample(sorted(value.items()), len(value))) if isinstance(value, dict) else value

    names = [field.name for field in dataclasses.fields(RegionAnswers)]
    again = [RegionAnswers(**{name: mixed(getattr(one, name)) for name in names}) for one in answers]
    return mix.sample(again, len(again))


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    st.tuples(*(said_by(name) for name in ("us-west-2", "us-east-1", "eu-west-1"))),
    st.integers(),
    st.booleans(),
    st.sampled_from([None, 9.0]),
)
def test_the_same_answers_in_any_order_give_the_same_choice(
    answers: tuple[RegionAnswers, ...], seed: int, spot: bool, most: float | None
) -> None:
    asked = Request(spot=spot, max_hourly=most, regions=(*(one.region for one in answers), "sa-east-1"))
    first, second = choose(asked, list(answers)), choose(asked, shuffled(list(answers), seed))
    assert json.dumps(first.as_dict()) == json.dumps(second.as_dict())
    assert explain.lines(first) == explain.lines(second)
    assert table.lines(first) == table.lines(second)
    # Whatever was said, every region has a row, and what is out says why while what is in does not.
    assert {one.region for one in first.candidates} == set(asked.regions or ())
    assert all(bool(one.reasons) != one.eligible for one in first.candidates)
    assert [one.place for one in first.candidates if one.eligible] == list(first.plan)
