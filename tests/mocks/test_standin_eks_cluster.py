"""The stand-in for eks.Cluster registers the children that the real component does, under its names and parents."""

from typing import Any

import pulumi
import pulumi_aws as aws

from tests.mocks.recording import Recording, run
from tools.standin.eks_cluster import Cluster

CLUSTER = "aws:eks/cluster:Cluster"
ANSWERS: dict[str, dict[str, Any]] = {
    CLUSTER: {
        "arn": "arn:aws:eks:us-west-2:123456789012:cluster/ray-dev",
        "endpoint": "https://eks.example",
        "certificateAuthority": {"data": "Q0E="},
        "identities": [{"oidcs": [{"issuer": "https://oidc.eks.us-west-2.amazonaws.com/id/A"}]}],
        "vpcConfig": {"subnetIds": ["subnet-1"], "clusterSecurityGroupId": "sg-own"},
    },
    "aws:iam/role:Role": {"arn": "arn:aws:iam::123456789012:role/made", "name": "made"},
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": {"arn": "arn:oidc"},
}
CALLS = {
    "aws:index/getPartition:getPartition": {"partition": "aws", "dnsSuffix": "amazonaws.com"},
    "aws:eks/getAddonVersion:getAddonVersion": {"version": "v9"},
}
PRODUCT: dict[str, Any] = {
    "name": "ray-dev",
    "version": "1.34",
    "vpcId": "vpc-1",
    "subnetIds": ["subnet-1"],
    "authenticationMode": "API",
    "skipDefaultNodeGroup": True,
    "skipDefaultSecurityGroups": True,
    "useDefaultVpcCni": True,
    "kubeProxyAddonOptions": {"enabled": False},
    "encryptionConfigKeyArn": "arn:key",
    "accessEntries": {
        "admin": {
            "principalArn": "arn:admin",
            "accessPolicies": {"cluster": {"policyArn": "arn:policy", "accessScope": {"type": "cluster"}}},
        }
    },
}


def made_with(seen: dict[str, Any] | None = None, **changes: Any) -> Recording:
    """`seen` gets the component's `state`, by then resolved."""

    def program() -> Any:
        component = Cluster("c", {**PRODUCT, **changes}, None)
        state = {key: value for key, value in component.state.items() if key in ("kubeconfigJson", "oidcIssuer")}
        state["sg"] = component.state["clusterSecurityGroupId"]
        return pulumi.Output.all(**state).apply((seen if seen is not None else {}).update)

    return run(program, ANSWERS, calls=CALLS)


def test_a_cluster_that_declines_what_it_can_has_a_role_an_entry_and_a_provider() -> None:
    seen: dict[str, Any] = {}
    recording = made_with(seen)
    assert {(resource.name, resource.parent) for resource in recording if resource.name != "c"} == {
        ("c-eksRole", "c"),
        ("c-eksRole-role", "c-eksRole"),
        ("c-eksRole-4b490823", "c-eksRole"),
        ("c-eksCluster", "c"),
        ("c-eks-k8s", "c"),
        ("c-admin", "c"),
        ("c-admin-cluster", "c-admin"),
    }
    cluster = recording.one(CLUSTER)
    assert cluster.inputs["accessConfig"] == {
        "authenticationMode": "API",
        "bootstrapClusterCreatorAdminPermissions": True,
    }
    assert cluster.inputs["encryptionConfig"] == {"provider": {"keyArn": "arn:key"}, "resources": ["secrets"]}
    assert cluster.inputs["bootstrapSelfManagedAddons"] is True
    assert "c-eksRole-4b490823" in cluster.dependencies, "EKS refuses a role that has not got its policy yet"
    assert seen["sg"] == "sg-own"
    assert seen["oidcIssuer"] == "oidc.eks.us-west-2.amazonaws.com/id/A"
    assert "get-token" in seen["kubeconfigJson"]


def test_what_is_not_declined_comes_with_it_open_security_groups_included() -> None:
    recording = made_with(
        skipDefaultSecurityGroups=None,
        useDefaultVpcCni=None,
        kubeProxyAddonOptions=None,
        createOidcProvider=True,
        corednsAddonOptions={"enabled": True},
    )
    names = {resource.name for resource in recording}
    assert {"c-kube-proxy", "c-coredns", "c-vpc-cni", "c-oidcProvider", "c-nodeSecurityGroup"} <= names
    rules = recording.of_type("aws:ec2/securityGroupRule:SecurityGroupRule")
    open_outwards = {rule.name for rule in rules if rule.inputs.get("cidrBlocks") == ["0.0.0.0/0"]}
    assert open_outwards == {"c-eksClusterInternetEgressRule", "c-eksNodeInternetEgressRule"}
    assert len(rules) == 6


def test_a_given_service_role_is_used_and_none_made() -> None:
    def program() -> Any:
        role = aws.iam.Role("mine", assume_role_policy="{}")
        return Cluster("c", {**PRODUCT, "serviceRole": role}, None) and None

    recording = run(program, ANSWERS, calls=CALLS)
    assert recording.one("aws:iam/role:Role").name == "mine"
    assert recording.one(CLUSTER).inputs["roleArn"] == "arn:aws:iam::123456789012:role/made"
