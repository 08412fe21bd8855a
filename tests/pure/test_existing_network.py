"""What an existing VPC or cluster is found to give, and what is said where it cannot."""

import dataclasses
from typing import Any

import pytest

from infra.existing_network import ExistingNetwork, SubnetFacts, network_of_cluster, network_of_vpc
from workload.errors import BadInputError

VPC = "vpc-0a1b2c3d"


def subnet(letter: str, **changes: Any) -> SubnetFacts:
    number = "abcdef".index(letter) + 1
    made = SubnetFacts(
        id=f"subnet-{letter}",
        zone=f"us-east-1{letter}",
        zone_id=f"use1-az{number}",
        vpc_id=VPC,
        cidr=f"10.0.{number}.0/24",
        free=250,
        auto_public=False,
    )
    return dataclasses.replace(made, **changes)


def of_vpc(*subnets: SubnetFacts, gpu: str = "us-east-1b", addresses: int = 106) -> ExistingNetwork:
    return network_of_vpc(VPC, subnets, gpu_zone=gpu, addresses=addresses)


def of_cluster(*subnets: SubnetFacts, gpu: str = "us-east-1b", addresses: int = 106) -> ExistingNetwork:
    return network_of_cluster("prod", VPC, subnets, gpu_zone=gpu, addresses=addresses)


def test_each_zone_gives_its_subnet() -> None:
    network = of_vpc(subnet("a"), subnet("b"), subnet("d"))
    assert network == ExistingNetwork(
        vpc_id=VPC,
        private_subnets={"us-east-1a": "subnet-a", "us-east-1b": "subnet-b", "us-east-1d": "subnet-d"},
        control_plane_subnets=["subnet-a", "subnet-b"],
        gpu_subnet="subnet-b",
        egress=[],
    )


def test_the_control_plane_stands_where_eks_has_any_and_the_gpus_where_they_are() -> None:
    network = of_vpc(subnet("c"), subnet("d"), subnet("a"), gpu="us-east-1c")
    assert network.control_plane_subnets == ["subnet-d", "subnet-a"], "use1-az3 hosts no control plane"
    assert network.gpu_subnet == "subnet-c"


def test_of_two_subnets_in_a_zone_the_one_listed_first_is_its_own_whatever_is_free() -> None:
    second = subnet("b", id="subnet-b2", free=4000)
    for first in (subnet("b"), subnet("b", free=110)):
        network = of_vpc(first, second, subnet("a"))
        assert network.gpu_subnet == "subnet-b", "nodes would be moved by what others use"


def test_a_subnet_appended_to_the_list_leaves_the_control_plane_where_it_is() -> None:
    assert of_vpc(subnet("a"), subnet("b")).control_plane_subnets == (
        of_vpc(subnet("a"), subnet("b"), subnet("d"), subnet("a", id="subnet-a2")).control_plane_subnets
    )


def test_nodes_that_are_there_need_no_free_addresses() -> None:
    assert of_vpc(subnet("a"), subnet("b", free=0), addresses=0).gpu_subnet == "subnet-b"


@pytest.mark.parametrize(
    ("subnets", "gpu", "message"),
    [
        (
            [subnet("a"), subnet("b", vpc_id="vpc-0fff")],
            "us-east-1b",
            r"subnet-b \(us-east-1b\) belongs to vpc-0fff, not to vpcId vpc-0a1b2c3d: .*set vpcId to vpc-0fff",
        ),
        ([subnet("a"), subnet("b", auto_public=True)], "us-east-1b", r"subnet-b \(us-east-1b\) gives a public address"),
        (
            [subnet("a"), subnet("b")],
            "us-east-1d",
            r"no private subnet is in gpuZone us-east-1d; there are subnet-a \(us-east-1a\), subnet-b \(us-east-1b\): "
            r"set gpuZone to one of us-east-1a, us-east-1b, or add",
        ),
        ([subnet("a"), subnet("b", free=105)], "us-east-1b", r"subnet-b \(us-east-1b\) has 105 free .*need 106: free"),
        ([subnet("b"), subnet("b", id="subnet-b2")], "us-east-1b", r"subnet-b \(us-east-1b\) are in too few zones"),
        (
            [subnet("b"), subnet("c")],
            "us-east-1b",
            r"too few zones .*EKS puts none in the zone of subnet-c \(us-east-1c\): add",
        ),
    ],
)
def test_what_a_vpc_lacks_is_told_with_subnet_and_zone(subnets: list[SubnetFacts], gpu: str, message: str) -> None:
    with pytest.raises(BadInputError, match=r"^vpcPrivateSubnets: .*" + message):
        of_vpc(*subnets, gpu=gpu)


def test_a_clusters_public_subnets_are_left_to_it() -> None:
    network = of_cluster(subnet("a", auto_public=True), subnet("b"))
    assert network.private_subnets == {"us-east-1b": "subnet-b"}
    assert network.control_plane_subnets == [], "it has its control plane"


def test_of_a_clusters_subnets_in_a_zone_nodes_get_the_largest_in_any_order() -> None:
    small = subnet("b", id="subnet-0", cidr="10.0.9.0/28", free=11)
    for order in ([small, subnet("b")], [subnet("b"), small]):
        assert of_cluster(*order).gpu_subnet == "subnet-b"
    same = subnet("b", id="subnet-z")
    assert of_cluster(same, subnet("b")).gpu_subnet == of_cluster(subnet("b"), same).gpu_subnet == "subnet-b"


@pytest.mark.parametrize(
    ("subnets", "message"),
    [
        ([subnet("a", auto_public=True)], r"none of its subnets \(subnet-a \(us-east-1a\)\) is private"),
        (
            [subnet("a"), subnet("b", auto_public=True)],
            r"no private subnet is in gpuZone us-east-1b; .*one of us-east-1a,",
        ),
        ([subnet("b", free=3)], r"subnet-b \(us-east-1b\) has 3 free addresses, and the GPU nodes need 106"),
    ],
)
def test_what_a_cluster_lacks_is_told_with_its_name(subnets: list[SubnetFacts], message: str) -> None:
    with pytest.raises(BadInputError, match=r"^eksExistingCluster prod: .*" + message):
        of_cluster(*subnets)
