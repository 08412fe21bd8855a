"""What the cluster's component asks of EKS."""

import json
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from infra.eks_cluster import EksCluster, EksClusterArgs
from tests.mocks.recording import Recording, reference, run

CLUSTER = "eks:index:Cluster"
KEY = "aws:kms/key:Key"
LOGS = "aws:cloudwatch/logGroup:LogGroup"
URN = "urn:pulumi:test::ray-train-efa::eks:index:Cluster$aws:eks/cluster:Cluster::inner"
STATE = {
    "name": "ray-dev",
    "arn": "arn:aws:eks:us-west-2:111122223333:cluster/ray-dev",
    "endpoint": "https://ABC.gr7.us-west-2.eks.amazonaws.com",
    "certificateAuthority": {"data": "Q0E="},
    "vpcConfig": {"clusterSecurityGroupId": "sg-0123456789abcdef0", "subnetIds": []},
}
ADMINS = ("arn:aws:iam::111122223333:role/Admin", "arn:aws:iam::111122223333:user/anna")


def args(**changes: Any) -> EksClusterArgs:
    values: dict[str, Any] = {
        "name": "ray-dev",
        "version": "1.34",
        "vpc_id": "vpc-1",
        "subnet_ids": ["subnet-1", "subnet-2"],
        "endpoint_cidrs": ("203.0.113.7/32",),
        "admins": ADMINS,
        "logs": ("audit",),
        "secrets_key": "",
        "region": "us-west-2",
        "profile": "",
        "assume_roles": (),
    }
    return EksClusterArgs(**{**values, **changes})


def program(seen: dict[str, Any] | None = None, **changes: Any) -> Recording:
    def declare() -> Any:
        provider = aws.Provider("aws", region="us-west-2")
        reservation = aws.ec2.PlacementGroup("reservation", strategy="cluster")
        cluster = EksCluster(
            "eks", args(billed_after=[reservation], **changes), pulumi.ResourceOptions(providers=[provider])
        )
        outputs = {key: getattr(cluster, key) for key in ("name", "arn", "endpoint", "security_group", "kubeconfig")}
        return pulumi.Output.all(**outputs, secret=cluster.kubeconfig.is_secret()).apply(
            (seen if seen is not None else {}).update
        )

    return run(
        declare,
        {CLUSTER: {"eksCluster": reference(URN)}, KEY: {"arn": "arn:aws:kms:us-west-2:111122223333:key/made"}},
        inside={URN: STATE},
    )


def test_the_component_makes_no_nodes_no_groups_and_no_add_ons() -> None:
    inputs = program().one(CLUSTER).inputs
    assert inputs["skipDefaultNodeGroup"] is True
    assert inputs["skipDefaultSecurityGroups"] is True
    assert inputs["useDefaultVpcCni"] is True, "true means that the component leaves the CNI alone"
    assert inputs["kubeProxyAddonOptions"]["enabled"] is False
    assert inputs["corednsAddonOptions"]["enabled"] is False
    assert inputs["bootstrapSelfManagedAddons"] is False


def test_the_cluster_is_named_pinned_and_in_standard_support() -> None:
    inputs = program().one(CLUSTER).inputs
    assert (inputs["name"], inputs["version"]) == ("ray-dev", "1.34")
    assert inputs["upgradePolicy"] == {"supportType": "STANDARD"}
    assert (inputs["vpcId"], inputs["subnetIds"]) == ("vpc-1", ["subnet-1", "subnet-2"])
    assert inputs["createOidcProvider"] is True


def test_the_api_is_open_to_the_vpc_and_to_the_networks_given() -> None:
    inputs = program().one(CLUSTER).inputs
    assert inputs["endpointPrivateAccess"] is True
    assert inputs["endpointPublicAccess"] is True
    assert inputs["publicAccessCidrs"] == ["203.0.113.7/32"]


def test_without_networks_the_api_is_private() -> None:
    inputs = program(endpoint_cidrs=()).one(CLUSTER).inputs
    assert inputs["endpointPublicAccess"] is False
    assert "publicAccessCidrs" not in inputs, "the component refuses them without public access"


def test_admins_come_in_through_access_entries_alone() -> None:
    inputs = program().one(CLUSTER).inputs
    assert inputs["authenticationMode"] == "API"
    assert not {"roleMappings", "userMappings", "instanceRoles"} & inputs.keys(), "the component refuses them with API"
    entries = inputs["accessEntries"]
    assert sorted(entry["principalArn"] for entry in entries.values()) == sorted(ADMINS)
    for entry in entries.values():
        [association] = entry["accessPolicies"].values()
        assert association["policyArn"].endswith("cluster-access-policy/AmazonEKSClusterAdminPolicy")
        assert association["accessScope"] == {"type": "cluster"}


def test_secrets_are_encrypted_with_a_key_made_here_that_rotates() -> None:
    recording = program()
    key = recording.one(KEY)
    assert key.inputs["enableKeyRotation"] is True
    assert 7 <= key.inputs["deletionWindowInDays"] <= 30
    assert recording.one(CLUSTER).inputs["encryptionConfigKeyArn"].endswith(":key/made")


def test_a_key_that_is_given_is_used() -> None:
    given = "arn:aws:kms:us-west-2:111122223333:key/given"
    recording = program(secrets_key=given)
    assert not recording.of_type(KEY)
    assert recording.one(CLUSTER).inputs["encryptionConfigKeyArn"] == given


def test_logs_go_into_a_group_that_ends_with_the_stack() -> None:
    recording = program()
    group = recording.one(LOGS)
    assert group.inputs["name"] == "/aws/eks/ray-dev/cluster", "another name, and EKS would make its own beside it"
    assert group.inputs["retentionInDays"] > 0
    assert group.name in recording.one(CLUSTER).dependencies
    assert recording.one(CLUSTER).inputs["enabledClusterLogTypes"] == ["audit"]
    assert not program(logs=()).of_type(LOGS)


def test_what_bills_waits_for_capacity() -> None:
    recording = program()
    assert "reservation" in recording.one(CLUSTER).dependencies
    assert "reservation" in recording.one(KEY).dependencies
    assert "reservation" not in recording.one(LOGS).dependencies


def test_all_of_it_is_the_components_own_and_uses_the_stacks_provider() -> None:
    recording = program()
    for token in (CLUSTER, KEY, LOGS):
        assert recording.one(token).parent == "eks"
    assert recording.one(CLUSTER).request.providers["aws"].split("::")[-2] == "aws"
    assert recording.one(KEY).request.provider.split("::")[-2] == "aws"


@pytest.mark.parametrize(
    ("profile", "roles", "expected"),
    [
        ("", (), {}),
        ("dev", (), {"profileName": "dev"}),
        ("", ("arn:aws:iam::111122223333:role/ci",), {"roleArn": "arn:aws:iam::111122223333:role/ci"}),
    ],
)
def test_the_component_is_told_how_the_provider_signs_in(profile: str, roles: tuple[str, ...], expected: Any) -> None:
    given = program(profile=profile, assume_roles=roles).one(CLUSTER).inputs["providerCredentialOpts"]
    assert given == expected, "absent, the component refuses an AWS provider of the program's own"


def test_outputs_are_those_of_the_cluster_that_was_made() -> None:
    seen: dict[str, Any] = {}
    program(seen, profile="dev")
    assert seen["name"] == STATE["name"]
    assert seen["arn"] == STATE["arn"]
    assert seen["endpoint"] == STATE["endpoint"]
    assert seen["security_group"] == "sg-0123456789abcdef0"
    kubeconfig = json.loads(seen["kubeconfig"])
    assert kubeconfig["clusters"][0]["cluster"] == {
        "server": STATE["endpoint"],
        "certificate-authority-data": "Q0E=",
    }
    assert "dev" in kubeconfig["users"][0]["user"]["exec"]["args"]
    assert seen["secret"] is True
