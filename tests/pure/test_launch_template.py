"""What nodes are launched from: interfaces by instance type, what names a reservation, and what must not be named."""

from typing import Any

import pulumi_aws as aws
import pytest

from infra.instances import known, names
from infra.launch_template import Disk, Template, gpu_template, instance_types, node_template, scaling
from workload.errors import BadInputError

DISK = Disk(gib=200, throughput=500, iops=3000)
GROUPS = ["sg-cluster", "sg-efa"]


def template(instance: str = "g6.12xlarge", **changes: Any) -> Template:
    asked: dict[str, Any] = {"market": "on-demand", "reservation": None, "placement_group": None, **changes}
    return gpu_template(
        instance=known(instance), security_groups=GROUPS, disk=DISK, tags={"Name": "ray-gpu", "team": "ml"}, **asked
    )


@pytest.mark.parametrize("name", names())
def test_every_type_has_an_interface_on_each_card_that_has_efa(name: str) -> None:
    instance, made = known(name), template(name)
    interfaces = made.get("network_interfaces", [])
    assert len(interfaces) == instance.efa_interfaces
    assert [interface["network_card_index"] for interface in interfaces] == list(range(instance.efa_interfaces))
    for interface in interfaces:
        first = interface["network_card_index"] == 0
        assert (interface["device_index"], interface["interface_type"]) == ((0, "efa") if first else (1, "efa-only"))
        assert interface["security_groups"] == GROUPS, "EFA needs the nodes' own group on every interface"


def test_a_type_without_efa_is_an_ordinary_node() -> None:
    made = template("g6.4xlarge")
    assert "network_interfaces" not in made
    assert made["vpc_security_group_ids"] == GROUPS


@pytest.mark.parametrize("name", ["g6.12xlarge", "g6e.48xlarge", "p5.48xlarge"])
def test_security_groups_stand_in_one_place(name: str) -> None:
    assert "vpc_security_group_ids" not in template(name), "EC2 refuses both"


@pytest.mark.parametrize(
    ("name", "said"), [("g6.12xlarge", True), ("g6e.48xlarge", False), ("p4d.24xlarge", False), ("p5.48xlarge", False)]
)
def test_a_public_address_is_refused_where_ec2_lets_one_say_so(name: str, said: bool) -> None:
    for interface in template(name)["network_interfaces"]:
        assert interface.get("associate_public_ip_address") == ("false" if said else None)


@pytest.mark.parametrize("name", names())
def test_every_argument_is_one_of_the_sdk(name: str) -> None:
    """A wrong nested name would pass as a dictionary, and be dropped or refused far away."""
    made = template(name, market="capacity-block", reservation="cr-1", placement_group="pg")
    aws.ec2.LaunchTemplateArgs(**made)
    for interface in made.get("network_interfaces", []):
        aws.ec2.LaunchTemplateNetworkInterfaceArgs(**interface)
    for mapping in made["block_device_mappings"]:
        aws.ec2.LaunchTemplateBlockDeviceMappingArgs(**mapping)
        aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(**mapping["ebs"])
    for tags in made["tag_specifications"]:
        aws.ec2.LaunchTemplateTagSpecificationArgs(**tags)
    aws.ec2.LaunchTemplateMetadataOptionsArgs(**made["metadata_options"])
    aws.ec2.LaunchTemplatePlacementArgs(**made["placement"])
    aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(**made["instance_market_options"])
    reservation = made["capacity_reservation_specification"]
    aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(**reservation)
    aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
        **reservation["capacity_reservation_target"]
    )


def test_disks_are_encrypted_and_go_with_their_node() -> None:
    for made in (template(), node_template(security_groups=GROUPS, disk=DISK, tags={})):
        [mapping] = made["block_device_mappings"]
        assert mapping["device_name"] == "/dev/xvda"
        assert mapping["ebs"] == {
            "volume_type": "gp3",
            "volume_size": 200,
            "throughput": 500,
            "iops": 3000,
            "encrypted": "true",
            "delete_on_termination": "true",
        }


def test_pods_are_not_served_the_nodes_role() -> None:
    options = template()["metadata_options"]
    assert (options["http_tokens"], options["http_put_response_hop_limit"]) == ("required", 1)


def test_what_a_template_launches_has_all_tags() -> None:
    made = template()["tag_specifications"]
    assert {one["resource_type"] for one in made} == {"instance", "volume", "network-interface"}
    assert all(one["tags"] == {"Name": "ray-gpu", "team": "ml"} for one in made)


@pytest.mark.parametrize("group", [None, "ray-pg"])
@pytest.mark.parametrize("reservation", [None, "cr-1"])
def test_reservation_and_placement_group_are_named_when_there_is_one(
    group: str | None, reservation: str | None
) -> None:
    made = template(reservation=reservation, placement_group=group)
    target = {"capacity_reservation_target": {"capacity_reservation_id": "cr-1"}}
    assert made.get("capacity_reservation_specification") == (target if reservation else None)
    assert made.get("placement") == ({"group_name": group} if group else None)


def test_nothing_that_eks_refuses_is_in_a_template() -> None:
    refused = {"user_data", "image_id", "iam_instance_profile", "key_name", "instance_initiated_shutdown_behavior"}
    for market in ("on-demand", "spot"):
        made = template(market=market)
        assert not refused & made.keys()
        assert "instance_market_options" not in made, "EKS asks for spot itself"
        assert "instance_type" not in made, "the node group has it"
        assert "subnet_id" not in made["network_interfaces"][0]
        assert instance_types(known("g6.12xlarge"), market) == ["g6.12xlarge"]


def test_a_capacity_block_is_named_with_its_type_in_the_template_alone() -> None:
    made = template("p5.48xlarge", market="capacity-block", reservation="cr-1")
    assert made["instance_market_options"] == {"market_type": "capacity-block"}
    assert made["instance_type"] == "p5.48xlarge"
    assert instance_types(known("p5.48xlarge"), "capacity-block") is None


def test_spot_nodes_have_no_reservation() -> None:
    with pytest.raises(BadInputError, match="capacity"):
        template(market="spot", reservation="cr-1")


@pytest.mark.parametrize(("nodes", "sizes"), [(0, (0, 0, 1)), (1, (1, 1, 1)), (2, (2, 2, 2))])
def test_a_group_has_the_size_asked_for_and_no_other(nodes: int, sizes: tuple[int, int, int]) -> None:
    made = scaling(nodes)
    assert (made["desired_size"], made["min_size"], made["max_size"]) == sizes
