"""The deployer's IAM policy against what the program declares and asks, and against what nobody should be given."""

import ast
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session  # type: ignore[import-untyped]
import pulumi_aws
import pytest

from tools.standin import actions
from tools.standin.iam_policy import actions_of, allowing, not_allowed

ROOT = Path(__file__).parents[2]
POLICY = json.loads((ROOT / "docs/iam/deployer.json").read_text())
# What pulumi-eks's Cluster and ServiceRole make beside what infra/ declares itself.
BY_PULUMI_EKS = (
    "aws:eks/cluster:Cluster",
    "aws:eks/accessEntry:AccessEntry",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider",
    "aws:iam/role:Role",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
)
STACK_TAG = "ray-train-efa/name"
LOOKING = re.compile(r"[a-z0-9]+:(Describe|List|Get)[A-Za-z0-9*]*")

# Where IAM's name of an action is not the name of the API call behind it.
OTHER_NAMES = {
    "s3:ListBucketVersions": "ListObjectVersions",
    "s3:DeleteObjectVersion": "DeleteObject",
    "s3:GetAccelerateConfiguration": "GetBucketAccelerateConfiguration",
    "s3:GetBucketCORS": "GetBucketCors",
    "s3:GetBucketObjectLockConfiguration": "GetObjectLockConfiguration",
    "s3:GetBucketPublicAccessBlock": "GetPublicAccessBlock",
    "s3:PutBucketPublicAccessBlock": "PutPublicAccessBlock",
    "s3:GetEncryptionConfiguration": "GetBucketEncryption",
    "s3:PutEncryptionConfiguration": "PutBucketEncryption",
    "s3:GetLifecycleConfiguration": "GetBucketLifecycleConfiguration",
    "s3:PutLifecycleConfiguration": "PutBucketLifecycleConfiguration",
    "s3:GetReplicationConfiguration": "GetBucketReplication",
    "s3:ListBucket": "HeadBucket",
}
# An action without a call of its own: it is checked in others.
NO_CALL = ("iam:PassRole",)
MODELS = {"servicequotas": ("service-quotas",), "s3": ("s3", "s3control")}


@functools.cache
def tokens() -> dict[tuple[str, str], str]:
    """Resource tokens by module and class, as the SDK itself lists them."""
    source = Path(pulumi_aws.__file__).read_text()
    found = re.findall(r'"fqn": "pulumi_aws\.(\w+)",\s*"classes": \{\s*"([^"]+)": "(\w+)"', source)
    return {(module, name): token for module, token, name in found}


def uses() -> Iterator[tuple[str, str]]:
    """(module, attribute) of every `aws.module.attribute`, and ("", attribute) of `aws.attribute`, in infra/."""
    for path in sorted((ROOT / "infra").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(ast.Attribute(ast.Name("aws"), module), attribute):
                    yield module, attribute
                case ast.Attribute(ast.Name("aws"), attribute):
                    yield "", attribute


def declared() -> set[str]:
    known = tokens()
    return {known[use] for use in uses() if use in known} | set(BY_PULUMI_EKS)


def invoked() -> set[str]:
    found = set()
    for module, attribute in uses():
        if attribute.startswith("get_"):
            first, *rest = attribute.removesuffix("_output").split("_")
            name = first + "".join(word.capitalize() for word in rest)
            found.add(f"aws:{module or 'index'}/{name}:{name}")
    return found


def every_action() -> set[str]:
    by_type = {
        action for operations in actions.ACTIONS.values() for operation in operations.values() for action in operation
    }
    return by_type | {action for asked in actions.INVOKES.values() for action in asked} | set(actions.BESIDE)


@functools.cache
def calls_of(service: str) -> set[str]:
    session = botocore.session.get_session()
    return {
        call for name in MODELS.get(service, (service,)) for call in session.get_service_model(name).operation_names
    }


def test_all_that_the_program_declares_may_be_made_read_changed_and_deleted() -> None:
    types = declared()
    assert "aws:ec2/vpc:Vpc" in types, "infra/ was read"
    assert types <= set(actions.ACTIONS), f"no actions known for {sorted(types - set(actions.ACTIONS))}"
    for resource_type in sorted(types):
        for operation in ("create", "read", "update", "delete"):
            missing = not_allowed(POLICY, actions.needed(resource_type, operation))
            assert missing == [], f"{operation} of {resource_type}"


def test_all_that_the_program_asks_may_be_asked() -> None:
    asked = invoked()
    assert asked <= set(actions.INVOKES), f"no actions known for {sorted(asked - set(actions.INVOKES))}"
    assert not_allowed(POLICY, [action for one in asked for action in actions.INVOKES[one]]) == []
    assert not_allowed(POLICY, actions.BESIDE) == []


@pytest.mark.parametrize("token", sorted(actions.ACTIONS))
def test_each_type_of_the_table_is_one_of_the_real_sdk(token: str) -> None:
    assert token in set(tokens().values())


@pytest.mark.parametrize("action", sorted(every_action()))
def test_each_action_of_the_table_is_a_call_of_that_service(action: str) -> None:
    if action not in NO_CALL:
        service, _, name = action.partition(":")
        assert OTHER_NAMES.get(action, name) in calls_of(service)


def test_an_operation_needs_the_reads_that_follow_it() -> None:
    assert actions.needed("aws:eks/cluster:Cluster", "create")[0] == "eks:CreateCluster"
    assert "eks:DescribeCluster" in actions.needed("aws:eks/cluster:Cluster", "delete")
    assert actions.needed("aws:ec2/getSubnet:getSubnet", "invoke") == ("ec2:DescribeSubnets",)
    with pytest.raises(KeyError):
        actions.needed("aws:rds/instance:Instance", "create")


def test_the_policy_is_small_enough_for_a_managed_one() -> None:
    assert len("".join((ROOT / "docs/iam/deployer.json").read_text().split())) <= 6144


def statements() -> list[Any]:
    return [pytest.param(statement, id=statement["Sid"]) for statement in POLICY["Statement"]]


@pytest.mark.parametrize("statement", statements())
def test_what_changes_things_is_held_to_names_tags_or_the_service(statement: dict[str, Any]) -> None:
    assert statement["Effect"] == "Allow"
    assert not any(action.endswith(":*") or action == "*" for action in actions_of(statement))
    if statement["Resource"] == "*" and "Condition" not in statement:
        for action in actions_of(statement):
            assert LOOKING.fullmatch(action), f"{action} on everything"


@pytest.mark.parametrize(
    "action",
    [
        "iam:CreateUser",
        "iam:CreateAccessKey",
        "iam:PutUserPolicy",
        "iam:AttachUserPolicy",
        "iam:CreatePolicyVersion",
        "ec2:CreateKeyPair",
        "ec2:RequestSpotInstances",
        "s3:GetObject",
        "s3:PutObject",
        "s3:PutBucketAcl",
        "kms:Decrypt",
        "sts:AssumeRole",
        "eks:AccessKubernetesApi",
    ],
)
def test_what_no_stack_needs_is_not_given(action: str) -> None:
    assert allowing(POLICY, action) == []


def test_roles_are_passed_only_to_the_services_that_take_them() -> None:
    [statement] = allowing(POLICY, "iam:PassRole")
    assert statement["Resource"].endswith(":role/ray-*")
    services = statement["Condition"]["StringEquals"]["iam:PassedToService"]
    assert services == [
        "ec2.amazonaws.com",
        "eks.amazonaws.com",
        "pods.eks.amazonaws.com",
        "scheduler.amazonaws.com",
    ]


def test_the_managed_policies_that_infra_names_can_be_attached_and_none_is_full_access() -> None:
    [statement] = allowing(POLICY, "iam:AttachRolePolicy")
    allowed = {arn.rpartition("/")[2] for arn in statement["Condition"]["ArnEquals"]["iam:PolicyARN"]}
    source = "\n".join(path.read_text() for path in (ROOT / "infra").glob("*.py"))
    named = set(re.findall(r"\bAmazon[A-Z]\w+\b", source))
    # Access policies of clusters are no IAM policies.
    assert {name for name in named if not name.endswith(("ClusterAdminPolicy", "AdminPolicy"))} <= allowed
    assert not any("FullAccess" in name for name in allowed)


def test_nothing_is_made_without_the_stacks_tag_where_aws_can_tell() -> None:
    for action in ("ec2:CreateVpc", "ec2:CreateCapacityReservation", "ec2:AllocateAddress", "kms:CreateKey"):
        conditions = [json.dumps(statement.get("Condition")) for statement in allowing(POLICY, action)]
        assert any(f"aws:RequestTag/{STACK_TAG}" in condition for condition in conditions), action
    for action in ("ec2:DeleteVpc", "ec2:CancelCapacityReservation", "kms:ScheduleKeyDeletion", "fsx:DeleteFileSystem"):
        [statement] = allowing(POLICY, action)
        assert statement["Condition"] == {"Null": {f"aws:ResourceTag/{STACK_TAG}": "false"}}, action


def test_the_policys_tag_is_the_one_that_every_stack_has() -> None:
    assert f'"{STACK_TAG}"' in (ROOT / "infra/eks_settings_reader.py").read_text()
