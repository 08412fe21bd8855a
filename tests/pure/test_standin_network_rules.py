"""What AWS would refuse of networks and names, and the stand-in does."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.standin_account import ZONE, StandinAccount
from tools.standin import tokens
from tools.standin.errors import AwsError, PartialError


@pytest.fixture
def account(tmp_path: Path) -> StandinAccount:
    return StandinAccount(tmp_path)


def refused(code: str) -> Any:
    return pytest.raises(AwsError, match=f"^{code}: ")


def failed(words: str) -> Any:
    return pytest.raises(PartialError, match=words)


class TestNetwork:
    def test_a_subnet_lies_within_its_vpc_and_beside_the_others(self, account: StandinAccount) -> None:
        vpc = account.vpc()
        account.subnet(vpc, "10.0.0.0/20", routed=False)
        with refused("InvalidSubnet.Range"):
            account.subnet(vpc, "10.1.0.0/20", routed=False)
        with refused("InvalidSubnet.Conflict"):
            account.subnet(vpc, "10.0.8.0/24", routed=False)

    def test_a_zone_is_one_of_the_region(self, account: StandinAccount) -> None:
        with refused("InvalidParameterValue"):
            account.subnet(account.vpc(), "10.0.0.0/20", "us-east-1a", routed=False)

    def test_what_is_not_there_cannot_be_referred_to(self, account: StandinAccount) -> None:
        with refused("InvalidVpcID.NotFound"):
            account.make(tokens.SUBNET, vpcId="vpc-0", cidrBlock="10.0.0.0/20", availabilityZone=ZONE)

    def test_a_rule_is_allowed_once(self, account: StandinAccount) -> None:
        group = account.make(tokens.SECURITY_GROUP, name="efa", vpcId=account.vpc().id)
        rule = {"securityGroupId": group.id, "ipProtocol": "-1", "referencedSecurityGroupId": group.id}
        account.make(tokens.INGRESS_RULE, **rule)
        account.make(tokens.EGRESS_RULE, **rule)
        with refused("InvalidPermission.Duplicate"):
            account.make(tokens.INGRESS_RULE, **rule)

    def test_a_rule_within_a_group_is_there_already(self, account: StandinAccount) -> None:
        everything = {"protocol": "-1", "fromPort": 0, "toPort": 0}
        egress = [{**everything, "cidrBlocks": ["0.0.0.0/0"]}, {**everything, "self": True}]
        group = account.make(tokens.SECURITY_GROUP, name="efa", vpcId=account.vpc().id, egress=egress).id
        with refused("InvalidPermission.Duplicate"):
            account.make(tokens.EGRESS_RULE, securityGroupId=group, ipProtocol="-1", cidrIpv4="0.0.0.0/0")
        with refused("InvalidPermission.Duplicate"):
            account.make(tokens.EGRESS_RULE, securityGroupId=group, ipProtocol="-1", referencedSecurityGroupId=group)
        account.make(tokens.INGRESS_RULE, securityGroupId=group, ipProtocol="-1", referencedSecurityGroupId=group)

    def test_the_clusters_own_group_has_egress_to_itself_already(self, account: StandinAccount) -> None:
        group = account.cluster().outputs["vpcConfig"]["clusterSecurityGroupId"]
        with refused("InvalidPermission.Duplicate"):
            account.make(tokens.EGRESS_RULE, securityGroupId=group, ipProtocol="-1", referencedSecurityGroupId=group)

    def test_a_nat_gateway_without_an_internet_gateway_fails(self, account: StandinAccount) -> None:
        subnet = account.subnet(account.vpc(), "10.0.0.0/24", routed=False)
        address = account.make(tokens.EIP, domain="vpc")
        with failed("has no Internet gateway"):
            account.make(tokens.NAT_GATEWAY, allocationId=address.id, subnetId=subnet.id)

    def test_what_others_are_in_is_deleted_after_them(self, account: StandinAccount) -> None:
        vpc = account.vpc()
        subnet = account.subnet(vpc, "10.0.0.0/24", routed=False)
        with refused("DependencyViolation"):
            account.delete(vpc)
        account.delete(subnet)
        account.delete(vpc)
        account.delete(vpc)
        assert account.remaining() == []

    def test_private_names_of_an_endpoint_need_dns_in_the_vpc(self, account: StandinAccount) -> None:
        name = {"serviceName": "com.amazonaws.us-west-2.ecr.api", "vpcEndpointType": "Interface"}
        vpc = account.vpc()
        with refused("InvalidParameter"):
            account.make(tokens.VPC_ENDPOINT, vpcId=vpc.id, privateDnsEnabled=True, **name)
        account.change(vpc, enableDnsHostnames=True)
        account.make(tokens.VPC_ENDPOINT, vpcId=vpc.id, privateDnsEnabled=True, **name)


class TestNames:
    def test_names_that_an_account_has_once_are_had_once(self, account: StandinAccount) -> None:
        account.role("ec2.amazonaws.com", "node")
        with refused("EntityAlreadyExists"):
            account.role("ec2.amazonaws.com", "node")
        account.make(tokens.BUCKET, bucket="checkpoints")
        with refused("BucketAlreadyOwnedByYou"):
            account.make(tokens.BUCKET, bucket="checkpoints")
        account.make(tokens.PLACEMENT_GROUP, name="gpu", strategy="cluster")
        with refused("InvalidPlacementGroup.Duplicate"):
            account.make(tokens.PLACEMENT_GROUP, name="gpu", strategy="cluster")

    def test_a_cluster_and_a_node_group_by_that_name_are_there_once(self, account: StandinAccount) -> None:
        cluster, template = account.cluster(), account.template()
        account.nodes(cluster, template)
        with refused("ResourceInUseException"):
            account.nodes(cluster, template)
        with refused("ResourceInUseException"):
            account.make(tokens.CLUSTER, **cluster.inputs)

    def test_a_managed_policy_must_exist(self, account: StandinAccount) -> None:
        account.role("ec2.amazonaws.com", "node")
        with refused("NoSuchEntity"):
            account.make(tokens.ROLE_POLICY_ATTACHMENT, role="node", policyArn="arn:aws:iam::aws:policy/AmazonEKSNodes")

    def test_a_role_goes_after_its_policies(self, account: StandinAccount) -> None:
        role = account.role("ec2.amazonaws.com", "node")
        arn = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
        attachment = account.make(tokens.ROLE_POLICY_ATTACHMENT, role="node", policyArn=arn)
        with refused("DeleteConflict"):
            account.delete(role)
        account.delete(attachment)
        account.delete(role)
