"""What EKS would refuse of clusters and nodes, and the stand-in does."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.standin_account import ZONE, StandinAccount, trust
from tools.standin import tokens
from tools.standin.errors import AwsError, PartialError


@pytest.fixture
def account(tmp_path: Path) -> StandinAccount:
    return StandinAccount(tmp_path)


def refused(code: str) -> Any:
    return pytest.raises(AwsError, match=f"^{code}: ")


def failed(words: str) -> Any:
    return pytest.raises(PartialError, match=words)


class TestCluster:
    def test_two_zones_at_least(self, account: StandinAccount) -> None:
        vpc = account.vpc()
        subnets = [account.subnet(vpc, cidr, routed=False).id for cidr in ("10.0.0.0/24", "10.0.1.0/24")]
        role = account.role("eks.amazonaws.com", "c")
        with pytest.raises(AwsError, match="at least two different AZs"):
            account.make(tokens.CLUSTER, name="c", roleArn=role.outputs["arn"], vpcConfig={"subnetIds": subnets})

    def test_no_control_plane_in_a_zone_that_has_none_by_id(self, tmp_path: Path) -> None:
        account = StandinAccount(tmp_path, region="us-east-1")
        vpc = account.vpc()
        bad = account.subnet(vpc, "10.0.0.0/24", "us-east-1e", routed=False)
        assert bad.outputs["availabilityZoneId"] == "use1-az3"
        subnets = [bad.id, account.subnet(vpc, "10.0.1.0/24", "us-east-1a", routed=False).id]
        role = account.role("eks.amazonaws.com", "c")
        with refused("UnsupportedAvailabilityZoneException"):
            account.make(tokens.CLUSTER, name="c", roleArn=role.outputs["arn"], vpcConfig={"subnetIds": subnets})

    def test_its_subnets_may_be_others_in_the_same_zones_and_network(self, account: StandinAccount) -> None:
        cluster = account.cluster()
        vpc = account.there(tokens.VPC, cluster.outputs["vpcConfig"]["vpcId"])
        first, second = cluster.inputs["vpcConfig"]["subnetIds"]
        beside = account.subnet(vpc, "10.0.32.0/20", routed=False).id
        third_zone = account.subnet(vpc, "10.0.48.0/20", "us-west-2c", routed=False).id
        elsewhere = [account.subnet(account.vpc(), "10.0.0.0/20", routed=False)]
        elsewhere.append(
            account.subnet(
                account.there(tokens.VPC, elsewhere[0].inputs["vpcId"]), "10.0.16.0/20", "us-west-2b", routed=False
            )
        )
        for subnets, words in (
            ([first, second, third_zone], "But they should belong to the exact set of AZs 'us-west-2a,us-west-2b'"),
            ([first, third_zone], "Provided subnets belong to the AZs 'us-west-2a,us-west-2c'"),
            ([entry.id for entry in elsewhere], "not in the VPC"),
        ):
            with pytest.raises(AwsError, match=f"InvalidParameterException: .*{words}"):
                account.change(cluster, vpcConfig={"subnetIds": subnets})
        changed = account.change(cluster, vpcConfig={"subnetIds": [beside, second]})
        assert changed.outputs["vpcConfig"]["subnetIds"] == [beside, second]
        for association in account.all(tokens.ROUTE_TABLE_ASSOCIATION):
            account.delete(association)
        account.delete(account.there(tokens.SUBNET, first))
        with refused("DependencyViolation"):
            account.delete(account.there(tokens.SUBNET, second))

    @pytest.mark.parametrize(
        "cidr",
        [
            *("10.1.0.0/16", "172.20.0.1/32", "192.168.1.0/24", "100.64.0.0/10", "169.254.1.0/24", "224.0.0.0/4"),
            *("192.0.2.0/24", "198.51.100.7/32", "203.0.113.0/24", "fd00::/8", "2001:db8::/32"),
        ],
    )
    def test_its_endpoint_is_open_to_addresses_of_the_internet_alone(self, cidr: str, account: StandinAccount) -> None:
        cluster = account.cluster()
        open_to = {**cluster.inputs["vpcConfig"], "publicAccessCidrs": ["8.8.8.8/32", cidr]}
        words = f"The following CIDRs are not allowed in publicAccessCidrs: [{cidr}]"
        with pytest.raises(AwsError, match=re.escape(words)):
            account.change(cluster, vpcConfig=open_to)
        account.change(cluster, vpcConfig={**open_to, "publicAccessCidrs": ["8.8.8.8/32", "0.0.0.0/0"]})

    def test_a_key_for_secrets_is_taken_once_and_another_one_ignored(self, account: StandinAccount) -> None:
        cluster = account.cluster()
        first, second = (
            {"provider": {"keyArn": account.make(tokens.KEY).outputs["arn"]}, "resources": ["secrets"]} for _ in "ab"
        )
        cluster = account.change(cluster, encryptionConfig=first)
        assert cluster.outputs["encryptionConfig"] == first
        cluster = account.change(cluster, encryptionConfig=second)
        assert cluster.outputs["encryptionConfig"] == first, "the provider tells EKS nothing and reports success"

    def test_versions_go_up_one_at_a_time(self, account: StandinAccount) -> None:
        cluster = account.cluster(version="1.32")
        for version in ("1.34", "1.31", "1.3"):
            with refused("InvalidParameterException"):
                account.change(cluster, version=version)
        assert account.change(cluster, version="1.33").outputs["version"] == "1.33"

    def test_nodes_are_not_newer_than_their_cluster(self, account: StandinAccount) -> None:
        cluster, template = account.cluster(version="1.33"), account.template()
        with refused("InvalidParameterException"):
            account.nodes(cluster, template, version="1.34")

    def test_a_cluster_goes_after_its_node_groups(self, account: StandinAccount) -> None:
        cluster, template = account.cluster(), account.template()
        group = account.nodes(cluster, template)
        with refused("ResourceInUseException"):
            account.delete(cluster)
        account.delete(group)
        account.delete(cluster)

    def test_access_entries_need_an_authentication_mode_that_has_them(self, account: StandinAccount) -> None:
        entry = {"clusterName": "ray", "principalArn": "arn:aws:iam::123456789012:role/admin"}
        cluster = account.cluster()
        with refused("InvalidRequestException"):
            account.make(tokens.ACCESS_ENTRY, **entry)
        account.change(cluster, accessConfig={"authenticationMode": "API"})
        account.make(tokens.ACCESS_ENTRY, **entry)
        policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
        account.make(tokens.ACCESS_POLICY_ASSOCIATION, **entry, policyArn=policy, accessScope={"type": "cluster"})

    def test_who_made_a_cluster_has_an_access_entry_already(self, account: StandinAccount) -> None:
        account.cluster(accessConfig={"authenticationMode": "API"})
        with refused("ResourceInUseException"):
            account.make(tokens.ACCESS_ENTRY, clusterName="ray", principalArn=account.cloud.scenario.caller)

    def test_logs_outlive_their_cluster_unless_their_group_is_deleted_after_it(self, account: StandinAccount) -> None:
        name = "/aws/eks/ray/cluster"
        group = account.make(tokens.LOG_GROUP, name=name, retentionInDays=30)
        cluster = account.cluster(enabledClusterLogTypes=["api"])
        account.delete(group)
        account.delete(cluster)
        assert account.there(tokens.LOG_GROUP, name), "EKS wrote on while the cluster was deleted"
        with refused("ResourceAlreadyExistsException"):
            account.make(tokens.LOG_GROUP, name=name, retentionInDays=30)

    def test_coredns_without_nodes_stays_degraded_until_the_provider_gives_up(self, account: StandinAccount) -> None:
        cluster, template = account.cluster(), account.template()
        addon = {"clusterName": cluster.id, "addonName": "coredns"}
        with failed("InsufficientNumberOfReplicas"):
            account.make(tokens.ADDON, **addon)
        assert account.calls(token=tokens.ADDON)[0]["seconds"] == 1200
        account.delete(account.there(tokens.ADDON, "ray:coredns"))
        account.nodes(cluster, template)
        account.make(tokens.ADDON, **addon)


class TestNodes:
    def test_a_role_of_ec2_and_a_subnet_of_the_clusters_vpc(self, account: StandinAccount) -> None:
        cluster, template = account.cluster(), account.template()
        other = account.subnet(account.vpc(), "10.0.0.0/24")
        with refused("InvalidParameterException"):
            account.nodes(cluster, template, subnetIds=[other.id])
        wrong = account.make(tokens.ROLE, name="wrong", assumeRolePolicy=trust("lambda.amazonaws.com"))
        with refused("InvalidParameterException"):
            account.nodes(cluster, template, nodeRoleArn=wrong.outputs["arn"])

    def test_a_template_with_groups_must_have_the_clusters(self, account: StandinAccount) -> None:
        cluster = account.cluster()
        own = account.make(tokens.SECURITY_GROUP, name="efa", vpcId=cluster.outputs["vpcConfig"]["vpcId"]).id
        template = account.template(vpcSecurityGroupIds=[own])
        with failed("leave out the cluster's"):
            account.nodes(cluster, template)
        both = [own, cluster.outputs["vpcConfig"]["clusterSecurityGroupId"]]
        template = account.change(template, vpcSecurityGroupIds=both)
        assert template.outputs["latestVersion"] == 2
        account.nodes(cluster, template, name="second")

    def test_nodes_without_a_way_to_images_never_join(self, account: StandinAccount) -> None:
        cluster, template = account.cluster(routed=False), account.template()
        with failed("lead nowhere"):
            account.nodes(cluster, template)

    def test_nodes_without_a_network_plugin_never_join(self, account: StandinAccount) -> None:
        cluster, template = account.cluster(bootstrapSelfManagedAddons=False), account.template()
        with failed("cni plugin"):
            account.nodes(cluster, template)
        account.make(tokens.ADDON, clusterName=cluster.id, addonName="vpc-cni")
        account.nodes(cluster, template, name="second")

    def test_a_template_version_must_exist_and_say_the_type_alone(self, account: StandinAccount) -> None:
        cluster, template = account.cluster(), account.template()
        with refused("InvalidLaunchTemplateId.VersionNotFound"):
            account.nodes(cluster, template, launchTemplate={"id": template.id, "version": "2"})
        with refused("InvalidParameterException"):
            account.nodes(cluster, template, instanceTypes=["g6.12xlarge"])

    def test_no_more_efa_interfaces_than_the_type_has(self, account: StandinAccount) -> None:
        cluster = account.cluster()
        cards = [{"deviceIndex": 0, "interfaceType": "efa", "networkCardIndex": card} for card in range(2)]
        with refused("InvalidRequestException"):
            account.nodes(cluster, account.template(networkInterfaces=cards))

    def test_a_type_that_the_zone_does_not_offer_cannot_be_launched(self, tmp_path: Path) -> None:
        account = StandinAccount(tmp_path, offerings={"us-west-2": {"g6.12xlarge": ["us-west-2b"]}})
        cluster, template = account.cluster(), account.template()
        with failed("Unsupported"):
            account.nodes(cluster, template)

    def test_the_quota_counts_reservations_and_what_runs_outside_them(self, tmp_path: Path) -> None:
        account = StandinAccount(tmp_path, quotas={"L-DB2E81BA": 144})
        cluster = account.cluster()
        reservation = account.reservation(2)
        account.nodes(cluster, account.template(reservation=reservation))
        with refused("VcpuLimitExceeded"):
            account.reservation(2)
        account.reservation(1)

    def test_a_zone_has_only_so_many(self, tmp_path: Path) -> None:
        account = StandinAccount(tmp_path, capacity={ZONE: {"g6.12xlarge": 1}})
        with refused("InsufficientInstanceCapacity"):
            account.reservation(2)
        cluster, template = account.cluster(), account.template()
        with failed("InsufficientInstanceCapacity"):
            account.nodes(cluster, template, 2)
