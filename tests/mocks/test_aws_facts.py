"""What AWS is asked before anything is declared, and what is known then."""

from collections.abc import Iterator, Mapping
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from infra.aws_facts import AwsFacts, InstanceFacts, read_aws_facts
from infra.existing_network import SubnetFacts
from infra.zones import ZoneFacts
from tests.mocks.recording import Answer, run
from tests.pure.test_eks_settings import load

CALLER = "aws:index/getCallerIdentity:getCallerIdentity"
ZONES = "aws:index/getAvailabilityZones:getAvailabilityZones"
OFFERINGS = "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings"
INSTANCE = "aws:ec2/getInstanceType:getInstanceType"
SUBNET = "aws:ec2/getSubnet:getSubnet"
CLUSTER = "aws:eks/getCluster:getCluster"
CLUSTERS = "aws:eks/getClusters:getClusters"
GROUP = "aws:eks/getNodeGroup:getNodeGroup"
GROUPS = "aws:eks/getNodeGroups:getNodeGroups"


def subnet(arguments: Mapping[str, Any]) -> dict[str, Any]:
    number = int(arguments["id"][-1])
    zone = "abc"[number % 3]
    return {
        "availabilityZone": f"us-west-2{zone}",
        "availabilityZoneId": f"usw2-az{number}",
        "vpcId": "vpc-1",
        "cidrBlock": f"10.0.{number}.0/24",
        "availableIpAddressCount": 200,
        "mapPublicIpOnLaunch": False,
    }


ANSWERS: dict[str, Answer] = {
    CALLER: {"accountId": "123456789012", "arn": "arn:aws-us-gov:iam::123456789012:user/deployer", "userId": "A"},
    ZONES: {"names": ["us-west-2a", "us-west-2b"], "zoneIds": ["usw2-az2", "usw2-az1"], "groupNames": ["us-west-2"]},
    OFFERINGS: {
        "instanceTypes": ["g6.12xlarge", "m7i.xlarge", "m7i.xlarge"],
        "locations": ["us-west-2b", "us-west-2a", "us-west-2b"],
        "locationTypes": ["availability-zone"] * 3,
    },
    INSTANCE: {
        "gpuses": [{"count": 4, "manufacturer": "NVIDIA", "memorySize": 22888, "name": "L4"}],
        "defaultVcpus": 48,
        "efaSupported": True,
        "efaMaximumInterfaces": 1,
    },
    SUBNET: subnet,
    CLUSTER: {
        "arn": "arn:aws:eks:us-west-2:123456789012:cluster/prod",
        "endpoint": "https://example.test",
        "certificateAuthorities": [{"data": "Q0E="}],
        "version": "1.34",
        "status": "ACTIVE",
        "vpcConfig": {
            "vpcId": "vpc-1",
            "subnetIds": ["subnet-00000002", "subnet-00000001"],
            "clusterSecurityGroupId": "sg-1",
            "endpointPrivateAccess": True,
            "endpointPublicAccess": True,
            "publicAccessCidrs": [],
            "securityGroupIds": [],
        },
    },
    CLUSTERS: {"names": ["prod", "other"]},
    GROUP: {
        "status": "ACTIVE",
        "instanceTypes": ["g6.12xlarge"],
        "amiType": "AL2023_x86_64_NVIDIA",
        "labels": {"role": "gpu-worker"},
        "taints": [],
        "subnetIds": ["subnet-00000001"],
        "scalingConfigs": [{"desiredSize": 2, "minSize": 2, "maxSize": 4}],
    },
    GROUPS: {"names": ["workers"]},
}
HERE = {"eksExistingCluster": "prod"}


@pytest.fixture(autouse=True)
def empty_config() -> Iterator[None]:
    yield
    pulumi.runtime.set_all_config({}, [])


def asked(**changes: Any) -> tuple[AwsFacts, list[tuple[str, dict[str, Any]]]]:
    """What was found out, and what was asked for it: function and arguments. `answers` go over the ones above."""
    answers = {**ANSWERS, **changes.pop("answers", {})}
    settings, found, questions = load(**changes), [], []

    def noted(token: str, answer: Answer) -> Answer:
        def answered(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            questions.append((token.rpartition(":")[2], dict(arguments)))
            return answer(arguments) if callable(answer) else answer

        return answered

    def program() -> None:
        found.append(read_aws_facts(settings, aws.Provider("aws", region=settings.aws.region)))

    run(program, calls={token: noted(token, answer) for token, answer in answers.items()})
    return found[0], questions


def test_a_network_of_its_own_takes_four_questions_and_no_more() -> None:
    _, questions = asked()
    assert [name for name, _ in questions] == [
        "getCallerIdentity",
        "getAvailabilityZones",
        "getInstanceTypeOfferings",
        "getInstanceType",
    ]
    arguments = dict(questions)
    assert arguments["getAvailabilityZones"]["filters"] == [{"name": "zone-type", "values": ["availability-zone"]}]
    assert arguments["getInstanceTypeOfferings"] == {
        "filters": [{"name": "instance-type", "values": ["g6.12xlarge", "m7i.xlarge"]}],
        "locationType": "availability-zone",
    }
    assert arguments["getInstanceType"] == {"instanceType": "g6.12xlarge"}


def test_what_aws_says_is_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    facts, _ = asked()
    assert facts == AwsFacts(
        account="123456789012",
        caller="arn:aws-us-gov:iam::123456789012:user/deployer",
        partition="aws-us-gov",
        zones=(
            ZoneFacts(name="us-west-2a", zone_id="usw2-az2", offers=frozenset({"m7i.xlarge"})),
            ZoneFacts(name="us-west-2b", zone_id="usw2-az1", offers=frozenset({"m7i.xlarge", "g6.12xlarge"})),
        ),
        instance=InstanceFacts(name="g6.12xlarge", gpus=4, vcpus=48, efa_interfaces=1),
        cli=True,
    )
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert not asked()[0].cli


def test_a_type_without_efa_has_no_interfaces_whatever_else_is_said() -> None:
    plain = {**dict(ANSWERS[INSTANCE]), "efaSupported": False}  # type: ignore[arg-type]
    assert asked(answers={INSTANCE: plain})[0].instance.efa_interfaces == 0


def test_an_existing_vpcs_subnets_are_asked_about_one_by_one() -> None:
    subnets = ["subnet-00000004", "subnet-00000005"]
    facts, questions = asked(vpcId="vpc-00000001", vpcPrivateSubnets=subnets, eksName="mine")
    assert [arguments["id"] for name, arguments in questions if name == "getSubnet"] == subnets
    assert facts.subnets[0] == SubnetFacts(
        id="subnet-00000004",
        zone="us-west-2b",
        zone_id="usw2-az4",
        vpc_id="vpc-1",
        cidr="10.0.4.0/24",
        free=200,
        auto_public=False,
    )
    assert not facts.nodes_there
    assert "getNodeGroups" not in dict(questions), "there is no cluster yet to have any"


def test_an_existing_cluster_is_asked_for_what_it_is_and_its_own_subnets() -> None:
    facts, questions = asked(**HERE)
    assert facts.cluster is not None
    assert (facts.cluster.name, facts.cluster.version, facts.cluster.security_group) == ("prod", "1.34", "sg-1")
    assert facts.cluster.certificate_authority == "Q0E="
    assert [found.id for found in facts.subnets] == ["subnet-00000001", "subnet-00000002"]
    assert dict(questions)["getCluster"] == {"name": "prod"}


@pytest.mark.parametrize(("groups", "there"), [(["ray-dev-gpu"], True), (["workers"], False)])
def test_nodes_of_this_stack_that_are_there_already_are_noticed(groups: list[str], there: bool) -> None:
    facts, questions = asked(answers={GROUPS: {"names": groups}}, eksName="ray-dev", **HERE)
    assert facts.nodes_there is there
    assert dict(questions)["getNodeGroups"] == {"clusterName": "prod"}


def test_an_existing_group_is_asked_for_what_it_has_and_where() -> None:
    facts, questions = asked(gpuExistingGroup="workers", capacity="none", **HERE)
    assert facts.group is not None
    assert (facts.group.name, facts.group.zones, facts.group.desired) == ("workers", ("us-west-2b",), 2)
    assert dict(questions)["getNodeGroup"] == {"clusterName": "prod", "nodeGroupName": "workers"}
