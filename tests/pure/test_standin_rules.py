"""What EKS and EC2 would refuse of clusters, nodes and reservations, and the stand-in does."""

import datetime
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


class TestReservation:
    def test_its_end_lies_ahead_and_goes_with_its_kind(self, account: StandinAccount) -> None:
        with refused("InvalidParameterValue"):
            account.reservation(endDateType="limited", endDate="2020-01-01T00:00:00Z")
        with refused("InvalidParameterCombination"):
            account.reservation(endDateType="limited")

    def test_nodes_fit_type_zone_count_and_state(self, account: StandinAccount) -> None:
        cluster, reservation = account.cluster(), account.reservation(2)
        template = account.template(reservation=reservation)
        with failed("ReservationCapacityExceeded"):
            account.nodes(cluster, template, 3)
        account.delete(account.there(tokens.NODE_GROUP, "ray:gpu"))
        account.nodes(cluster, template, 2)

    def test_an_expired_reservation_takes_no_nodes(self, account: StandinAccount) -> None:
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=60)
        cluster = account.cluster()
        reservation = account.reservation(endDateType="limited", endDate=end.isoformat())
        reservation.inputs["endDate"] = "2020-01-01T00:00:00Z"
        with account.cloud.account.open() as records:
            records.put(reservation)
        with failed("ReservationCapacityExceeded"):
            account.nodes(cluster, account.template(reservation=reservation))

    def test_the_template_and_the_reservation_agree_on_the_placement_group(self, account: StandinAccount) -> None:
        cluster = account.cluster()
        group = account.make(tokens.PLACEMENT_GROUP, name="gpu", strategy="cluster")
        template = account.template(reservation=account.reservation(), group="gpu")
        with failed("InsufficientInstanceCapacity"):
            account.nodes(cluster, template)
        inside = account.reservation(placementGroupArn=group.outputs["arn"])
        target = {"capacityReservationTarget": {"capacityReservationId": inside.id}}
        template = account.change(template, capacityReservationSpecification=target)
        nodes = account.nodes(cluster, template, name="second")
        with refused("InvalidPlacementGroup.InUse"):
            account.delete(group)
        account.delete(nodes)
        account.delete(inside)
        account.delete(group)

    def test_only_a_minimal_update_fits_a_full_reservation(self, account: StandinAccount) -> None:
        cluster, reservation = account.cluster(), account.reservation(2)
        template = account.template(reservation=reservation)
        nodes = account.nodes(cluster, template)
        template = account.change(template, metadataOptions={"httpTokens": "required"})
        newer = {"id": template.id, "version": "2"}
        with refused("AsgInstanceLaunchFailures"):
            account.change(nodes, launchTemplate=newer)
        account.change(nodes, launchTemplate=newer, updateConfig={"maxUnavailable": 1, "updateStrategy": "MINIMAL"})

    def test_no_nodes_need_no_room(self, account: StandinAccount) -> None:
        cluster, reservation = account.cluster(), account.reservation(1)
        account.nodes(cluster, account.template(reservation=reservation), 0)
