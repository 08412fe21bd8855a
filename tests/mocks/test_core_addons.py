"""Which EKS add-ons are declared, with what, and when."""

import json
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest
import yaml

from infra import versions
from infra.core_addons import CoreAddons, CoreAddonsArgs, NodeAddons, NodeAddonsArgs
from tests.mocks.recording import Recording, Registered, run

ADDON = "aws:eks/addon:Addon"
ROLE = "aws:iam/role:Role"
ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
ROLE_ARN = "arn:aws:iam::111122223333:role/made"
TAGS = {"ray-train-efa/stack": "dev", "team": "ml"}
BEFORE_NODES = {"vpc-cni", "kube-proxy", "eks-pod-identity-agent"}


def made(version: str = "1.34", *, ebs_csi: bool = False, partition: str = "aws") -> Recording:
    def declare() -> None:
        args = NodeAddonsArgs(cluster_name="ray-dev", version=version, partition=partition, tags=TAGS)
        node = NodeAddons("node", args)
        group = aws.eks.NodeGroup(
            "system",
            cluster_name="ray-dev",
            node_role_arn=ROLE_ARN,
            subnet_ids=["subnet-1"],
            scaling_config={"desired_size": 1, "max_size": 1, "min_size": 1},
            opts=pulumi.ResourceOptions(depends_on=[*node.addons]),
        )
        CoreAddons(
            "core",
            CoreAddonsArgs(
                cluster_name="ray-dev", version=version, partition=partition, system_nodes=[group], ebs_csi=ebs_csi
            ),
        )

    return run(declare, {ROLE: {"arn": ROLE_ARN}})


def addon(recording: Recording, name: str) -> Registered:
    [found] = [resource for resource in recording.of_type(ADDON) if resource.inputs["addonName"] == name]
    return found


def attachment(recording: Recording, policy: str) -> Registered:
    [found] = [one for one in recording.of_type(ATTACHMENT) if one.inputs["policyArn"].endswith(f"/{policy}")]
    return found


@pytest.mark.parametrize("version", versions.EKS)
def test_every_add_on_is_pinned_for_the_clusters_version(version: str) -> None:
    pinned = versions.EKS[version]
    recording = made(version, ebs_csi=True)
    assert {one.inputs["addonName"]: one.inputs["addonVersion"] for one in recording.of_type(ADDON)} == {
        "vpc-cni": pinned.vpc_cni,
        "kube-proxy": pinned.kube_proxy,
        "eks-pod-identity-agent": pinned.pod_identity_agent,
        "coredns": pinned.coredns,
        "aws-ebs-csi-driver": pinned.ebs_csi,
    }
    assert pinned.kube_proxy.startswith(f"v{version}."), "kube-proxy goes with its Kubernetes"


def test_the_default_version_is_one_that_add_ons_are_pinned_for() -> None:
    settings = yaml.safe_load((Path(__file__).parents[2] / "Pulumi.yaml").read_text())["config"]
    assert settings["eksVersion"]["default"] == versions.EKS_CLUSTER
    assert versions.EKS_CLUSTER in versions.EKS


def test_what_makes_a_node_ready_is_there_before_it_and_dns_comes_after() -> None:
    recording = made(ebs_csi=True)
    group = recording.one("aws:eks/nodeGroup:NodeGroup")
    for name in BEFORE_NODES:
        assert addon(recording, name).name in group.dependencies
        assert "system" not in addon(recording, name).dependencies
    for name in ("coredns", "aws-ebs-csi-driver"):
        assert "system" in addon(recording, name).dependencies, "EKS calls it degraded while no node takes its pods"


def test_network_policies_are_enforced() -> None:
    values = json.loads(addon(made(), "vpc-cni").inputs["configurationValues"])
    assert values["enableNetworkPolicy"] == "true", "the add-on's schema wants text"


def test_the_interfaces_that_the_cni_makes_carry_the_stacks_tags() -> None:
    values = json.loads(addon(made(), "vpc-cni").inputs["configurationValues"])
    assert json.loads(values["env"]["ADDITIONAL_ENI_TAGS"]) == TAGS
    assert all(isinstance(value, str) for value in values["env"].values()), "the add-on's schema wants text"


def test_the_cni_has_a_role_of_its_own_so_that_nodes_need_none() -> None:
    recording = made()
    cni = addon(recording, "vpc-cni")
    assert cni.inputs["podIdentityAssociations"] == [{"serviceAccount": "aws-node", "roleArn": ROLE_ARN}]
    policy = attachment(recording, "AmazonEKS_CNI_Policy")
    assert policy.name in cni.dependencies, "its pods start with the first node, and must be able to act then"


def test_roles_trust_pods_alone() -> None:
    for role in made(ebs_csi=True).of_type(ROLE):
        [statement] = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
        assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"], "Pod Identity always tags its sessions"


def test_the_ebs_driver_is_for_claims_alone() -> None:
    assert BEFORE_NODES | {"coredns"} == {one.inputs["addonName"] for one in made().of_type(ADDON)}
    recording = made(ebs_csi=True)
    [association] = addon(recording, "aws-ebs-csi-driver").inputs["podIdentityAssociations"]
    assert association["serviceAccount"] == "ebs-csi-controller-sa"
    assert attachment(recording, "AmazonEBSCSIDriverPolicy").inputs["policyArn"].startswith("arn:aws:iam::aws:")


def test_policies_are_those_of_the_partition() -> None:
    for one in made(ebs_csi=True, partition="aws-us-gov").of_type(ATTACHMENT):
        assert one.inputs["policyArn"].startswith("arn:aws-us-gov:iam::aws:policy/")


def test_every_add_on_has_time_and_wins_over_what_is_there() -> None:
    for one in made(ebs_csi=True).of_type(ADDON):
        timeouts: Any = one.request.customTimeouts
        assert timeouts.create == "20m"
        assert one.inputs["resolveConflictsOnCreate"] == one.inputs["resolveConflictsOnUpdate"] == "OVERWRITE"
        assert one.parent in ("node", "core")
