"""What the stand-in account answers when it is only asked."""

from pathlib import Path
from typing import Any

import pulumi_aws
import pytest
from pulumi import _types as sdk

from tests.support.standin_account import ZONE, StandinAccount
from tools.standin import invokes, tokens
from tools.standin.errors import AwsError
from workload.errors import BadInputError


def ask(account: StandinAccount, path: str, **arguments: Any) -> dict[str, Any]:
    """`path` is module.function: ec2.getSubnet."""
    module, name = path.split(".")
    return invokes.answer(account.cloud, f"aws:{module}/{name}:{name}", arguments)


@pytest.fixture
def account(tmp_path: Path) -> StandinAccount:
    return StandinAccount(tmp_path)


def test_a_function_or_an_argument_that_is_not_known_is_refused_by_name(account: StandinAccount) -> None:
    with pytest.raises(BadInputError, match="getAmi"):
        ask(account, "ec2.getAmi")
    with pytest.raises(BadInputError, match=r"has no argument availability_zone; .*availabilityZone"):
        ask(account, "ec2.getSubnet", availability_zone=ZONE)


def test_zones_have_names_and_ids_and_local_ones_only_when_asked_for(account: StandinAccount) -> None:
    zones = ask(account, "index.getAvailabilityZones", state="available")
    assert dict(zip(zones["names"], zones["zoneIds"], strict=True))[ZONE] == "usw2-az2"
    regional = [{"name": "opt-in-status", "values": ["opt-in-not-required"]}]
    everything = ask(account, "index.getAvailabilityZones", allAvailabilityZones=True)
    assert len(everything["names"]) == len(zones["names"]) + 1
    filtered = ask(account, "index.getAvailabilityZones", allAvailabilityZones=True, filters=regional)
    assert filtered["names"] == zones["names"]


def test_offerings_are_the_scenarios_where_it_has_them(account: StandinAccount) -> None:
    question = {
        "locationType": "availability-zone",
        "filters": [{"name": "instance-type", "values": ["g6.12xlarge", "m7i.xlarge"]}],
    }
    account.scenario(offerings={"us-west-2": {"g6.12xlarge": ["us-west-2c"]}})
    answer = ask(account, "ec2.getInstanceTypeOfferings", **question)
    pairs = set(zip(answer["instanceTypes"], answer["locations"], strict=True))
    assert {zone for name, zone in pairs if name == "g6.12xlarge"} == {"us-west-2c"}
    assert ("m7i.xlarge", "us-west-2d") in pairs
    assert set(answer["locationTypes"]) == {"availability-zone"}


def test_an_instance_type_has_what_the_program_asks_about(account: StandinAccount) -> None:
    gpu = ask(account, "ec2.getInstanceType", instanceType="g6.12xlarge")
    assert (gpu["gpuses"][0]["count"], gpu["defaultVcpus"], gpu["efaMaximumInterfaces"]) == (4, 48, 1)
    plain = ask(account, "ec2.getInstanceType", instanceType="m7i.xlarge")
    assert (plain["gpuses"], plain["efaSupported"]) == ([], False)
    with pytest.raises(AwsError, match="InvalidInstanceType"):
        ask(account, "ec2.getInstanceType", instanceType="g6.13xlarge")
    account.scenario(offerings={"us-west-2": {"g6.12xlarge": []}})
    with pytest.raises(AwsError, match=r"InvalidInstanceType: .*do not exist: \[g6.12xlarge\]"):
        ask(account, "ec2.getInstanceType", instanceType="g6.12xlarge")


def test_subnets_are_found_by_vpc_zone_and_tag(account: StandinAccount) -> None:
    vpc = account.vpc()
    first = account.subnet(vpc, "10.0.0.0/24", routed=False)
    second = account.subnet(vpc, "10.0.1.0/24", "us-west-2b", routed=False)
    in_vpc = [{"name": "vpc-id", "values": [vpc.id]}]
    assert ask(account, "ec2.getSubnets", filters=in_vpc)["ids"] == [first.id, second.id]
    tagged = [{"name": "tag:stack", "values": ["te*"]}, {"name": "availability-zone", "values": ["us-west-2b"]}]
    assert ask(account, "ec2.getSubnets", filters=tagged)["ids"] == [second.id]
    one = ask(account, "ec2.getSubnet", id=first.id)
    assert (one["availabilityZoneId"], one["availableIpAddressCount"]) == ("usw2-az2", 251)
    with pytest.raises(AwsError, match="multiple"):
        ask(account, "ec2.getSubnet", vpcId=vpc.id)
    with pytest.raises(AwsError, match="no matching"):
        ask(account, "ec2.getVpc", id="vpc-0")
    with pytest.raises(AwsError, match="filter 'vpc'"):
        ask(account, "ec2.getSubnets", filters=[{"name": "vpc", "values": ["x"]}])


def test_a_cluster_and_its_groups_are_found_by_name(account: StandinAccount) -> None:
    assert ask(account, "eks.getClusters")["names"] == []
    with pytest.raises(AwsError, match=r"reading EKS Cluster \(ray\): couldn't find resource"):
        ask(account, "eks.getCluster", name="ray")
    with pytest.raises(AwsError, match="ResourceNotFoundException"):
        ask(account, "eks.getNodeGroups", clusterName="ray")
    cluster = account.cluster()
    account.nodes(cluster, account.template())
    found = ask(account, "eks.getCluster", name="ray")
    assert found["certificateAuthorities"][0]["data"]
    assert found["vpcConfig"]["subnetIds"] == cluster.outputs["vpcConfig"]["subnetIds"]
    assert ask(account, "eks.getNodeGroups", clusterName="ray")["names"] == ["gpu"]
    with pytest.raises(AwsError, match=r"reading EKS Node Group \(ray:cpu\): couldn't find resource"):
        ask(account, "eks.getNodeGroup", clusterName="ray", nodeGroupName="cpu")
    group = ask(account, "eks.getNodeGroup", clusterName="ray", nodeGroupName="gpu")
    assert (group["status"], group["scalingConfigs"][0]["desiredSize"]) == ("ACTIVE", 2)


def test_the_quota_is_the_scenarios(account: StandinAccount) -> None:
    account.scenario(quotas={"L-DB2E81BA": 8})
    quota = ask(account, "servicequotas.getServiceQuota", serviceCode="ec2", quotaCode="L-DB2E81BA")
    assert quota["value"] == 8


def test_a_question_is_written_down_like_every_other_call(account: StandinAccount) -> None:
    ask(account, "index.getCallerIdentity")
    assert [(call["type"], call["operation"]) for call in account.calls()] == [
        ("aws:index/getCallerIdentity:getCallerIdentity", "invoke")
    ]


@pytest.mark.parametrize("token", invokes.ANSWERS)
def test_answers_have_only_names_of_the_sdk(token: str, account: StandinAccount) -> None:
    cluster = account.cluster()
    account.nodes(cluster, account.template())
    subnet = cluster.outputs["vpcConfig"]["subnetIds"][0]
    asked = {
        "getInstanceType": {"instanceType": "p5.48xlarge"},
        "getSubnet": {"id": subnet},
        "getSecurityGroup": {"id": cluster.outputs["vpcConfig"]["clusterSecurityGroupId"]},
        "getServiceQuota": {"serviceCode": "ec2", "quotaCode": "L-DB2E81BA"},
        "getCluster": {"name": "ray"},
        "getClusterAuth": {"name": "ray"},
        "getNodeGroup": {"clusterName": "ray", "nodeGroupName": "gpu"},
        "getNodeGroups": {"clusterName": "ray"},
        "getAddonVersion": {"addonName": "coredns", "kubernetesVersion": "1.34"},
        "getRole": {"name": "node"},
        "getPolicyDocument": {"statements": [{"actions": ["s3:*"], "resources": ["*"]}]},
    }
    name = token.rpartition(":")[2]
    answer = invokes.answer(account.cloud, token, asked.get(name, {}))
    folder = token.split(":")[1].partition("/")[0]
    module = pulumi_aws if folder == "index" else getattr(pulumi_aws, folder)
    known = sdk.output_type_types(getattr(module, f"Get{name.removeprefix('get')}Result"))
    assert set(answer) - set(known) <= {"region"}, token
    assert tokens.CLUSTER in account.remaining()
