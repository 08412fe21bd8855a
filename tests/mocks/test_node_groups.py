"""What the node groups' components register: templates, groups, and what a change must do to them."""

import dataclasses
import json
from typing import Any

import pulumi
import pytest

from infra.instances import known
from infra.node_groups import (
    GpuNodes,
    GpuNodesArgs,
    NodeRole,
    NodeRoleArgs,
    SystemNodes,
    SystemNodesArgs,
)
from infra.ray_cluster_spec import GPU_TOLERATION
from tests.mocks.recording import Recording, run

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
ROLE = "aws:iam/role:Role"
ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
ANSWERS: dict[str, dict[str, Any]] = {TEMPLATE: {"latestVersion": 3}}
TAGS = {"ray-train-efa/stack": "dev"}


class Policy(pulumi.CustomResource):
    def __init__(self) -> None:
        super().__init__("test:test:Policy", "policy", {})


def gpu_args(**changes: Any) -> GpuNodesArgs:
    made = GpuNodesArgs(
        group_name="ray-dev-gpu",
        cluster_name="ray-dev",
        version="1.34",
        role_arn="arn:aws:iam::123456789012:role/nodes",
        subnet_id="subnet-a",
        vpc_id="vpc-1",
        instance=known("g6.12xlarge"),
        nodes=2,
        disk_gib=300,
        disk_throughput=500,
        disk_iops=4000,
        ami_release="",
        labels={"role": "gpu-worker"},
        tags=TAGS,
        cluster_security_group="sg-cluster",
        market="on-demand",
        reservation="cr-1",
        placement_group=None,
        other_security_groups=(),
        roll=True,
        after=(),
    )
    return dataclasses.replace(made, **changes)


def gpu(**changes: Any) -> Recording:
    return run(lambda: GpuNodes("gpu", gpu_args(**changes)).resource.arn, ANSWERS)


def system(**changes: Any) -> Recording:
    made = SystemNodesArgs(
        label="ray-dev-system",
        cluster_name="ray-dev",
        version="1.34",
        role_arn="arn:aws:iam::123456789012:role/nodes",
        subnet_ids=["subnet-a", "subnet-b"],
        instance_type="m7i.xlarge",
        nodes=1,
        disk_gib=150,
        tags=TAGS,
        cluster_security_group="sg-cluster",
        after=(),
    )
    return run(lambda: SystemNodes("system", dataclasses.replace(made, **changes)).resource.arn, ANSWERS)


def test_all_of_it_is_the_components_own() -> None:
    assert {(resource.type, resource.parent) for resource in gpu()[1:]} == {
        (SECURITY_GROUP, "gpu"),
        (TEMPLATE, "gpu"),
        (NODE_GROUP, "gpu"),
    }
    assert {(resource.type, resource.parent) for resource in system()[1:]} == {
        (TEMPLATE, "system"),
        (NODE_GROUP, "system"),
    }


def test_gpu_nodes_are_in_one_subnet_of_one_type_and_kept_for_gpu_work() -> None:
    inputs = gpu().one(NODE_GROUP).inputs
    assert inputs["subnetIds"] == ["subnet-a"]
    assert inputs["instanceTypes"] == ["g6.12xlarge"]
    assert inputs["amiType"] == "AL2023_x86_64_NVIDIA"
    assert inputs["capacityType"] == "ON_DEMAND"
    assert inputs["labels"] == {"role": "gpu-worker", "nvidia.com/gpu.present": "true"}
    [taint] = inputs["taints"]
    assert taint == {"key": GPU_TOLERATION["key"], "value": "present", "effect": "NO_SCHEDULE"}
    assert inputs["scalingConfig"] == {"desiredSize": 2, "minSize": 2, "maxSize": 2}


def test_efa_passes_within_the_nodes_own_group_both_ways_and_nothing_else_does() -> None:
    recording = gpu()
    group = recording.one(SECURITY_GROUP).inputs
    within = [{"protocol": "-1", "fromPort": 0, "toPort": 0, "self": True}]
    assert (group["ingress"], group["egress"]) == (within, within)
    [interface] = recording.one(TEMPLATE).inputs["networkInterfaces"]
    assert interface["securityGroups"] == ["sg-cluster", "gpu-efa-id"], "EKS adds nothing to a template that has groups"
    assert interface["interfaceType"] == "efa"


def test_nodes_follow_the_newest_version_of_their_template() -> None:
    for recording in (gpu(), system()):
        [template, group] = [recording.one(TEMPLATE), recording.one(NODE_GROUP)]
        assert group.inputs["launchTemplate"] == {"id": f"{template.name}-id", "version": "3"}
        assert template.name in group.dependencies


def test_groups_of_others_are_on_the_interfaces_beside_the_clusters_and_the_nodes_own() -> None:
    recording = gpu(other_security_groups=["sg-fsx", "sg-nfs"])
    [interface] = recording.one(TEMPLATE).inputs["networkInterfaces"]
    assert interface["securityGroups"] == ["sg-cluster", "gpu-efa-id", "sg-fsx", "sg-nfs"]
    within = recording.one(SECURITY_GROUP).inputs["ingress"]
    assert within == [{"protocol": "-1", "fromPort": 0, "toPort": 0, "self": True}], "EFA passes in the own group alone"
    plain = gpu(other_security_groups=["sg-fsx"], instance=known("g6.xlarge")).one(TEMPLATE).inputs
    assert plain["vpcSecurityGroupIds"] == ["sg-cluster", "gpu-efa-id", "sg-fsx"]


@pytest.mark.parametrize(("roll", "ignored"), [(True, []), (False, ["launchTemplate"])])
def test_running_nodes_stay_on_their_version_of_the_template_where_they_are_not_to_roll(
    roll: bool, ignored: list[str]
) -> None:
    recording = gpu(roll=roll, reservation=None, nodes=0)
    group = recording.one(NODE_GROUP)
    assert list(group.request.ignoreChanges) == ignored
    assert group.request.deleteBeforeReplace, "what else the group needs stays"
    assert list(recording.one(TEMPLATE).request.ignoreChanges) == [], "the template itself follows its settings"


def test_the_template_names_the_reservation_and_the_group_it_is_in() -> None:
    inputs = gpu(placement_group="ray-pg").one(TEMPLATE).inputs
    target = inputs["capacityReservationSpecification"]["capacityReservationTarget"]
    assert target == {"capacityReservationId": "cr-1"}
    assert inputs["placement"] == {"groupName": "ray-pg"}


def test_expired_or_unwanted_a_reservation_is_not_named() -> None:
    inputs = gpu(reservation=None, nodes=0).one(TEMPLATE).inputs
    assert not {"capacityReservationSpecification", "placement", "instanceMarketOptions"} & inputs.keys()


def test_no_nodes_keep_the_group() -> None:
    inputs = gpu(reservation=None, nodes=0).one(NODE_GROUP).inputs
    assert inputs["scalingConfig"] == {"desiredSize": 0, "minSize": 0, "maxSize": 1}


def test_a_reservation_of_exact_size_never_has_to_hold_two_generations() -> None:
    group = gpu().one(NODE_GROUP)
    assert group.inputs["updateConfig"] == {"maxUnavailablePercentage": 100, "updateStrategy": "MINIMAL"}
    assert group.request.deleteBeforeReplace
    assert group.inputs["nodeGroupName"] == "ray-dev-gpu"


def test_system_nodes_are_replaced_by_others_that_are_there_first() -> None:
    group = system().one(NODE_GROUP)
    assert not group.request.deleteBeforeReplace
    assert "nodeGroupName" not in group.inputs, "two of one name cannot be there"
    assert not {"taints", "updateConfig"} & group.inputs.keys()
    assert group.inputs["subnetIds"] == ["subnet-a", "subnet-b"]
    assert group.inputs["instanceTypes"] == ["m7i.xlarge"]
    assert group.inputs["amiType"] == "AL2023_x86_64_STANDARD"


def test_a_capacity_blocks_type_stands_in_the_template_and_makes_another_one() -> None:
    recording = gpu(market="capacity-block", instance=known("p5.48xlarge"))
    template, group = recording.one(TEMPLATE), recording.one(NODE_GROUP)
    assert template.inputs["instanceType"] == "p5.48xlarge"
    assert template.inputs["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert len(template.inputs["networkInterfaces"]) == 32
    assert "instanceTypes" not in group.inputs, "EKS refuses a type in both"
    assert group.inputs["capacityType"] == "CAPACITY_BLOCK"
    assert list(template.request.replaceOnChanges) == ["instanceType"]


def test_spot_is_asked_of_eks_and_not_of_the_template() -> None:
    recording = gpu(market="spot", reservation=None)
    assert recording.one(NODE_GROUP).inputs["capacityType"] == "SPOT"
    assert "instanceMarketOptions" not in recording.one(TEMPLATE).inputs


@pytest.mark.parametrize(("given", "release"), [("", None), ("1.34.1-20261120", "1.34.1-20261120")])
def test_the_ami_release_is_pinned_where_it_is_given(given: str, release: str | None) -> None:
    inputs = gpu(ami_release=given).one(NODE_GROUP).inputs
    assert inputs.get("releaseVersion") == release
    assert inputs["version"] == "1.34"


@pytest.mark.parametrize("status", ["CREATE_FAILED", "DELETE_FAILED", "DEGRADED"])
def test_a_group_that_failed_has_no_revision_but_an_error_with_both_ways_on(status: str) -> None:
    answers = {**ANSWERS, NODE_GROUP: {"status": status}}
    with pytest.raises(pulumi.RunError, match=f"node group ray-dev-gpu is {status}") as caught:
        run(lambda: GpuNodes("gpu", gpu_args()).revision, answers)
    assert "pulumi up --refresh" in str(caught.value)
    assert "pulumi up --replace 'urn:" in str(caught.value)


def test_another_version_of_the_template_is_another_revision() -> None:
    assert revision(3) == "ray-dev-gpu, template version 3"
    assert revision(4) == "ray-dev-gpu, template version 4"


def revision(version: int) -> str:
    seen: list[str] = []
    answers: dict[str, dict[str, Any]] = {TEMPLATE: {"latestVersion": version}, NODE_GROUP: {"status": "ACTIVE"}}
    run(lambda: GpuNodes("gpu", gpu_args()).revision.apply(seen.append), answers)
    return seen[0]


def test_nodes_alone_wait_for_what_makes_them_ready() -> None:
    recording = run(lambda: GpuNodes("gpu", gpu_args(after=[Policy()])).resource.arn, ANSWERS)
    waiting = {resource.type for resource in recording if "policy" in resource.dependencies}
    assert waiting == {NODE_GROUP}


def test_a_group_without_capacity_is_not_waited_for_for_an_hour() -> None:
    for recording in (gpu(), system()):
        assert recording.one(NODE_GROUP).request.customTimeouts.create == "30m"


def test_what_the_nodes_bring_has_the_stacks_tags() -> None:
    for recording, name in ((gpu(), "ray-dev-gpu"), (system(), "ray-dev-system")):
        made = recording.one(TEMPLATE).inputs["tagSpecifications"]
        assert [one["resourceType"] for one in made] == ["instance", "volume", "network-interface"]
        assert all(one["tags"] == {**TAGS, "Name": name} for one in made)


def test_disks_are_as_asked_for_and_encrypted() -> None:
    [mapping] = gpu().one(TEMPLATE).inputs["blockDeviceMappings"]
    disk = mapping["ebs"]
    assert (disk["volumeSize"], disk["throughput"], disk["iops"]) == (300, 500, 4000)
    assert (disk["encrypted"], disk["deleteOnTermination"]) == ("true", "true")


def test_nodes_have_a_role_with_the_rights_of_a_node_and_no_more() -> None:
    recording = run(lambda: NodeRole("nodes", NodeRoleArgs(partition="aws-us-gov")).role_arn)
    [statement] = json.loads(recording.one(ROLE).inputs["assumeRolePolicy"])["Statement"]
    assert statement["Principal"] == {"Service": "ec2.amazonaws.com"}
    assert {resource.inputs["policyArn"] for resource in recording.of_type(ATTACHMENT)} == {
        f"arn:aws-us-gov:iam::aws:policy/{policy}"
        for policy in ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonEKS_CNI_Policy")
    }
    assert {resource.parent for resource in recording[1:]} == {"nodes"}


def test_nodes_lack_the_cnis_rights_where_it_has_its_own() -> None:
    recording = run(lambda: NodeRole("nodes", NodeRoleArgs(partition="aws", cni=False)).role_arn)
    assert len(recording.of_type(ATTACHMENT)) == 2
