"""The stand-in for eks.Cluster refuses what the real component refuses, and says where it ends itself."""

from typing import Any

import pulumi_eks
import pytest

from tools.standin import eks_rules
from tools.standin.eks_addons import configuration
from tools.standin.eks_arguments import names
from tools.standin.eks_kubeconfig import kubeconfig, region_of
from tools.standin.eks_rules import ArgumentError

GOOD: dict[str, Any] = {
    "vpcId": "vpc-1",
    "subnetIds": ["subnet-1", "subnet-2"],
    "authenticationMode": "API",
    "skipDefaultNodeGroup": True,
    "accessEntries": {"admin": {"principalArn": "arn:aws:iam::1:role/a"}},
    "publicAccessCidrs": ["203.0.113.7/32"],
    "endpointPublicAccess": True,
}


def refusal(**changes: Any) -> tuple[str, str]:
    """The argument that is refused and why; empty when none is."""
    arguments = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    try:
        eks_rules.check(arguments)
    except ArgumentError as error:
        return error.argument, error.reason
    return "", ""


@pytest.mark.parametrize(
    ("changes", "argument", "reason"),
    [
        ({}, "", ""),
        ({"authenticationMode": "CONFIG"}, "authenticationMode", "allowed are CONFIG_MAP"),
        ({"roleMappings": [{"roleArn": "x"}]}, "roleMappings", "non-empty values when 'authenticationMode' is 'API'"),
        ({"roleMappings": []}, "", ""),
        ({"userMappings": [{}]}, "userMappings", "non-empty"),
        ({"instanceRoles": ["x"]}, "instanceRoles", "non-empty"),
        ({"authenticationMode": "CONFIG_MAP"}, "accessEntries", "set to 'CONFIG_MAP'"),
        ({"authenticationMode": None}, "accessEntries", "not set"),
        ({"authenticationMode": None, "accessEntries": {}}, "accessEntries", "not set"),
        ({"authenticationMode": None, "accessEntries": None}, "", ""),
        ({"authenticationMode": "API_AND_CONFIG_MAP", "roleMappings": [{}]}, "", ""),
        (
            {"authenticationMode": "CONFIG_MAP", "accessEntries": None, "instanceRole": "a", "instanceRoles": ["b"]},
            "instanceRole",
            "instanceRoles",
        ),
        ({"privateSubnetIds": ["subnet-3"]}, "subnetIds", "privateSubnetIds"),
        ({"subnetIds": None, "privateSubnetIds": ["subnet-3"], "publicSubnetIds": ["subnet-4"]}, "", ""),
        ({"nodeGroupOptions": {"gpu": True}, "minSize": 1}, "nodeGroupOptions", "minSize"),
        (
            {"authenticationMode": "CONFIG_MAP", "accessEntries": None, "autoMode": {"enabled": True}},
            "autoMode",
            "API or API_AND_CONFIG_MAP",
        ),
        ({"creationRoleProvider": {"role": "x"}}, "creationRoleProvider", "providerCredentialOpts"),
        ({"endpointPublicAccess": False}, "publicAccessCidrs", "endpointPublicAccess is true"),
        ({"endpointPublicAccess": None}, "", ""),
        ({"vpcCniOptions": {"cniExternalSnat": True, "externalSnat": True}}, "vpcCniOptions", "one of"),
    ],
)
def test_what_the_real_component_refuses_is_refused(changes: dict[str, Any], argument: str, reason: str) -> None:
    refused, why = refusal(**changes)
    assert refused == argument
    assert reason in why


@pytest.mark.parametrize(
    "change",
    [
        {"fargate": True},
        {"autoMode": {"enabled": True}},
        {"skipDefaultNodeGroup": False},
        {"authenticationMode": "API_AND_CONFIG_MAP"},
        {"vpcId": None},
        {"subnetIds": None},
        {"storageClasses": "gp3"},
    ],
)
def test_where_the_stand_in_ends_it_says_so(change: dict[str, Any]) -> None:
    arguments = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    eks_rules.check_modelled(GOOD)
    with pytest.raises(ArgumentError, match=r"stand-in|refused by EKS"):
        eks_rules.check_modelled(arguments)


def test_an_argument_that_the_installed_sdk_does_not_have_is_found_at_any_depth() -> None:
    known = names(pulumi_eks.ClusterArgs)
    assert eks_rules.unknown(GOOD, known) == []
    assert eks_rules.unknown({"vpcid": "x"}, known) == ["vpcid"]
    entries = {"admin": {"principalArn": "a", "accessPolicy": {}}}
    assert eks_rules.unknown({"accessEntries": entries}, known) == ["accessEntries.admin.accessPolicy"]
    scope = {"type": "cluster", "namespace": "x"}
    policies = {"accessPolicies": {"cluster": {"policyArn": "a", "accessScope": scope}}}
    found = eks_rules.unknown({"accessEntries": {"admin": policies}}, known)
    assert found == ["accessEntries.admin.accessPolicies.cluster.accessScope.namespace"]
    assert eks_rules.unknown({"upgradePolicy": {"support": "STANDARD"}}, known) == ["upgradePolicy.support"]
    assert eks_rules.unknown({"tags": {"any": "thing"}}, known) == []


def test_every_rule_is_about_an_argument_that_the_sdk_has() -> None:
    known = set(names(pulumi_eks.ClusterArgs))
    assert set(GOOD) | set(eks_rules.UNMODELLED) | {"creationRoleProvider", "vpcCniOptions"} <= known


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        ({}, {"service_role", "security_groups", "kube_proxy", "vpc_cni", "coredns"}),
        ({"skipDefaultNodeGroup": True}, {"service_role", "security_groups", "kube_proxy", "vpc_cni"}),
        (
            {
                "serviceRole": "x",
                "skipDefaultNodeGroup": True,
                "skipDefaultSecurityGroups": True,
                "useDefaultVpcCni": True,
                "kubeProxyAddonOptions": {"enabled": False},
                "createOidcProvider": True,
            },
            {"oidc_provider"},
        ),
        (
            {"skipDefaultNodeGroup": True, "corednsAddonOptions": {"enabled": True}},
            {"service_role", "security_groups", "kube_proxy", "vpc_cni", "coredns"},
        ),
        (
            {"corednsAddonOptions": {"enabled": False}, "kubeProxyAddonOptions": {"version": "v1"}},
            {"service_role", "security_groups", "kube_proxy", "vpc_cni"},
        ),
    ],
)
def test_what_is_not_declined_is_made(arguments: dict[str, Any], made: set[str]) -> None:
    asked = vars(eks_rules.children(arguments))
    assert {name for name, wanted in asked.items() if wanted} == made


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ("aws-cli/2.31.0 Python/3.13.7 Linux/6.12 exe/x86_64", ""),
        ("aws-cli/2.6.9 Python/3.9", "2.7.0"),
        ("aws-cli/1.24.0 Python/3.9", ""),
        ("aws-cli/1.23.9 Python/3.9", "1.24.0"),
        ("something else", "no version"),
        (None, "could not find aws CLI"),
    ],
)
def test_the_aws_command_must_be_there_and_new_enough(answer: str | None, refused: str) -> None:
    if not refused:
        eks_rules.check_cli(answer)
        return
    with pytest.raises(ArgumentError, match=refused):
        eks_rules.check_cli(answer)


def test_the_cni_is_configured_as_the_real_component_does_it_and_what_is_given_wins() -> None:
    values = configuration(
        {"enableNetworkPolicy": True, "warmIpTarget": 4.0, "configurationValues": {"env": {"A": "b"}}}
    )
    assert values["enableNetworkPolicy"] == "true"
    assert values["env"]["WARM_IP_TARGET"] == "4"
    assert values["env"]["WARM_ENI_TARGET"] == "1"
    assert values["env"]["A"] == "b"
    assert values["init"]["env"] == {"DISABLE_TCP_EARLY_DEMUX": "false"}


def test_the_kubeconfig_asks_the_aws_command_and_names_a_profile_only_where_it_may() -> None:
    facts = {"cluster": "c", "endpoint": "https://e", "region": "us-west-2", "certificate": "Q0E="}
    credentials = {"profileName": "p", "roleArn": "r"}
    ours, theirs = (
        kubeconfig(**facts, credentials=credentials, with_profile=both)["users"][0]["user"]["exec"]["args"]
        for both in (True, False)
    )
    assert theirs[:5] == ["--region", "us-west-2", "eks", "get-token", "--cluster-name"]
    assert theirs[-2:] == ["--role", "r"]
    assert ours == [*theirs, "--profile", "p"]
    assert region_of("arn:aws:eks:us-west-2:1:cluster/c") == "us-west-2"
    with pytest.raises(ValueError, match="invalid ARN"):
        region_of("cluster/c")
