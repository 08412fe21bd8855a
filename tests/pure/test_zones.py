"""Which zones a network gets, and what is said of a zone that cannot do what it is asked to."""

import itertools

import pytest

from infra.zones import ZoneFacts, ZonePlan, choose_zones, offering
from workload.errors import BadInputError

TYPE = "g6.12xlarge"


def zone(name: str, zone_id: str, *offers: str) -> ZoneFacts:
    return ZoneFacts(name=name, zone_id=zone_id, offers=frozenset(offers))


# Names and ids in no common order, as accounts have them.
OREGON = [
    zone("us-west-2a", "usw2-az2", TYPE),
    zone("us-west-2b", "usw2-az1", TYPE),
    zone("us-west-2c", "usw2-az3"),
    zone("us-west-2d", "usw2-az4", TYPE),
]
CALIFORNIA = [zone("us-west-1a", "usw1-az2", TYPE), zone("us-west-1c", "usw1-az3", TYPE)]
VIRGINIA = [
    zone(f"us-east-1{letter}", f"use1-az{number}", TYPE) for letter, number in zip("abcdef", "345612", strict=True)
]


def plan(zones: list[ZoneFacts], gpu: str, *given: str) -> ZonePlan:
    return choose_zones(zones, gpu_zone=gpu, gpu_type=TYPE, given=given)


def test_the_control_plane_takes_the_first_two_zones_by_id() -> None:
    assert plan(OREGON, "us-west-2a") == ZonePlan(
        gpu="us-west-2a", control_plane=("us-west-2b", "us-west-2a"), all=("us-west-2a", "us-west-2b")
    )


def test_the_gpu_zone_is_first_and_may_be_apart_from_the_control_planes() -> None:
    assert plan(OREGON, "us-west-2d").all == ("us-west-2d", "us-west-2b", "us-west-2a")


def test_another_gpu_zone_leaves_the_control_plane_where_it_is() -> None:
    planned = {plan(OREGON, gpu).control_plane for gpu in ("us-west-2a", "us-west-2b", "us-west-2d")}
    assert len(planned) == 1, "EKS never changes a cluster's zones: the cluster would be replaced"


def test_the_order_in_which_aws_names_zones_does_not_matter() -> None:
    plans = {plan(list(order), "us-west-2d") for order in itertools.permutations(OREGON)}
    assert len(plans) == 1


@pytest.mark.parametrize("gpu", [zone.name for zone in VIRGINIA])
def test_no_control_plane_is_put_where_eks_has_none(gpu: str) -> None:
    chosen = plan(VIRGINIA, gpu)
    assert "us-east-1a" not in chosen.control_plane, "use1-az3 hosts none"
    assert len(set(chosen.control_plane)) == 2
    assert chosen.all[0] == gpu


def test_a_gpu_zone_without_control_planes_still_has_gpus() -> None:
    given = plan(VIRGINIA, "us-east-1a", "us-east-1a", "us-east-1b", "us-east-1c")
    assert given.control_plane == ("us-east-1b", "us-east-1c")
    assert given.gpu == "us-east-1a"


def test_given_zones_are_all_there_is() -> None:
    chosen = plan(OREGON, "us-west-2d", "us-west-2c", "us-west-2d", "us-west-2a")
    assert chosen.control_plane == ("us-west-2c", "us-west-2d")
    assert chosen.all == ("us-west-2d", "us-west-2c", "us-west-2a")


def test_a_zone_appended_to_the_given_ones_leaves_the_control_plane_where_it_is() -> None:
    two = plan(OREGON, "us-west-2d", "us-west-2a", "us-west-2d")
    three = plan(OREGON, "us-west-2d", "us-west-2a", "us-west-2d", "us-west-2b")
    assert two.control_plane == three.control_plane


@pytest.mark.parametrize(
    ("zones", "gpu", "given", "message"),
    [
        (
            OREGON,
            "us-west-2c",
            (),
            r"gpuZone 'us-west-2c' does not offer g6.12xlarge: .*us-west-2b, us-west-2a, us-west-2d",
        ),
        (OREGON, "us-west-2e", (), r"'us-west-2e' is not a zone of this region: .*us-west-2b, us-west-2a, us-west-2d"),
        (
            OREGON[2:3],
            "us-west-2c",
            (),
            r"g6.12xlarge is offered in no zone of this region \(us-west-2c\): .*aws:region",
        ),
        (OREGON, "us-west-2a", ("us-west-2a", "us-west-2f"), r"vpcZones: 'us-west-2f' is not .*us-west-2a, us-west-2b"),
        (
            OREGON,
            "us-west-2a",
            ("us-west-2b", "us-west-2d"),
            r"gpuZone us-west-2a is not among vpcZones us-west-2b, us-",
        ),
        (CALIFORNIA, "us-west-1a", (), r"this region: 1 of .*EKS puts none in us-west-1a \(usw1-az2\): take another"),
        (VIRGINIA, "us-east-1b", ("us-east-1a", "us-east-1b"), r"vpcZones: 1 of .*us-east-1a \(use1-az3\): add zones"),
        (OREGON, "us-west-2a", ("us-west-2a", "us-west-2a"), r"vpcZones: 1 of the zones us-west-2a can .*: add zones"),
    ],
)
def test_what_cannot_be_is_told_with_what_can(
    zones: list[ZoneFacts], gpu: str, given: tuple[str, ...], message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        plan(zones, gpu, *given)


def test_zones_that_offer_a_type_are_named_by_id() -> None:
    assert offering(OREGON, TYPE) == ("us-west-2b", "us-west-2a", "us-west-2d")
    assert offering(OREGON, "p5.48xlarge") == ()
