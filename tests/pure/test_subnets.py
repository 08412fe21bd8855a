"""How a VPC is divided: nothing overlaps, nothing moves, and nodes find room."""

import gzip
import ipaddress
import json
from pathlib import Path

import moto
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import instances
from infra.subnets import addresses_for, check_room, plan_subnets
from workload.errors import BadInputError

ZONES = [f"us-east-1{letter}" for letter in "abcdefg"]


@st.composite
def vpcs(draw: st.DrawFn) -> str:
    prefix = draw(st.integers(16, 22))
    return str(ipaddress.IPv4Network((draw(st.integers(0, 2**32 - 1)) >> (32 - prefix) << (32 - prefix), prefix)))


some_zones = st.lists(st.sampled_from(ZONES), min_size=1, unique=True)


@given(vpcs(), some_zones)
def test_subnets_lie_within_the_vpc_and_apart(cidr: str, zones: list[str]) -> None:
    plan = plan_subnets(cidr, zones)
    assert set(plan.private) == set(plan.public) == set(zones)
    subnets = [ipaddress.IPv4Network(subnet) for subnet in (*plan.private.values(), *plan.public.values())]
    vpc = ipaddress.IPv4Network(cidr)
    assert all(subnet.subnet_of(vpc) for subnet in subnets)
    assert sum(subnet.num_addresses for subnet in subnets) == sum(
        subnet.num_addresses for subnet in ipaddress.collapse_addresses(subnets)
    ), "two of them overlap"


@given(vpcs(), some_zones)
def test_private_subnets_are_large_and_public_ones_small(cidr: str, zones: list[str]) -> None:
    plan = plan_subnets(cidr, zones)
    vpc = ipaddress.IPv4Network(cidr)
    for zone in zones:
        assert ipaddress.IPv4Network(plan.private[zone]).num_addresses * 8 == vpc.num_addresses
        public = ipaddress.IPv4Network(plan.public[zone])
        assert public.num_addresses * 64 == vpc.num_addresses
        assert public.prefixlen <= 28, "a VPC has no smaller subnets"


@given(vpcs(), some_zones)
def test_a_zone_keeps_its_subnets_whichever_others_there_are(cidr: str, zones: list[str]) -> None:
    every = plan_subnets(cidr, ZONES)
    plan = plan_subnets(cidr, zones)
    assert plan.private == {zone: every.private[zone] for zone in zones}
    assert plan.public == {zone: every.public[zone] for zone in zones}


def test_the_subnets_of_the_default_vpc() -> None:
    plan = plan_subnets("10.20.0.0/16", ["us-west-2d", "us-west-2a"])
    assert plan.private == {"us-west-2d": "10.20.96.0/19", "us-west-2a": "10.20.0.0/19"}
    assert plan.public == {"us-west-2d": "10.20.236.0/22", "us-west-2a": "10.20.224.0/22"}


@pytest.mark.parametrize("zone", ["us-west-2h", "us-west-2", "us-west-2-lax-1", ""])
def test_a_zone_without_a_place_is_named(zone: str) -> None:
    with pytest.raises(BadInputError, match=f"zone '{zone}'"):
        plan_subnets("10.20.0.0/16", [zone])


def test_a_vpc_that_is_too_small_is_named_with_what_is_enough() -> None:
    with pytest.raises(BadInputError, match=r"10\.20\.0\.0/23 is too small.*/22"):
        plan_subnets("10.20.0.0/23", ["us-west-2a"])


@given(vpcs(), st.integers(0, 200))
def test_nodes_have_room_or_the_vpc_that_has_is_named(cidr: str, nodes: int) -> None:
    """Asked of the plan itself: a subnet has what its CIDR has, less five."""

    def fits(vpc: str) -> bool:
        private = ipaddress.IPv4Network(plan_subnets(vpc, ["us-west-2a"]).private["us-west-2a"])
        return private.num_addresses - 5 >= addresses_for(nodes)

    if fits(cidr):
        check_room(cidr, nodes=nodes)
        return
    with pytest.raises(BadInputError, match=f"vpcCidr {cidr} .* {nodes} GPU nodes") as refused:
        check_room(cidr, nodes=nodes)
    advice = str(refused.value).rpartition(": ")[2]
    if not fits("10.0.0.0/16"):
        assert advice.endswith("take fewer nodes")
        return
    prefix = int(advice.removeprefix("take a /").removesuffix(" or larger"))
    assert fits(f"10.0.0.0/{prefix}"), "the advice must be enough"
    assert not fits(f"10.0.0.0/{prefix + 1}"), "and no more than enough"


def test_five_addresses_of_each_subnet_are_the_vpcs_own() -> None:
    check_room("10.20.0.0/22", nodes=2)
    with pytest.raises(BadInputError, match="has 123 addresses for a zone, and 3 GPU nodes need 156: take a /21"):
        check_room("10.20.0.0/22", nodes=3)


@pytest.mark.parametrize("name", instances.names())
def test_no_type_takes_more_addresses_on_an_interface_than_are_counted(name: str) -> None:
    path = Path(moto.__file__).parent / "ec2/resources/instance_types.json.gz"
    answer = json.loads(gzip.decompress(path.read_bytes()))[name]["NetworkInfo"]
    assert addresses_for(1) - addresses_for(0) >= answer["Ipv4AddressesPerInterface"]
