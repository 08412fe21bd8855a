"""Each rule of the policy pack with what breaks it, and a stack that none has anything against."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from policy.rules import RESOURCE_RULES, STACK_RULES
from policy.rules.resources import HELM_RELEASE, LAUNCH_TEMPLATE, UNKNOWN, Resource, ResourceRule, StackRule
from tests.support.policy_breaks import BREAKS, Break, broken, one_break_a_rule
from tests.support.policy_stack import as_seen

RULES: tuple[ResourceRule | StackRule, ...] = (*RESOURCE_RULES, *STACK_RULES)
REMEDIES = ("set", "add", "list", "put", "make", "leave", "name", "let", "reach", "give", "covers")
KNOWN = {"private": "subnet-1", "elsewhere": "subnet-2", "efa": "sg-1", "template": "lt-1", "bucket": "b"}


def violations(resources: Sequence[Resource]) -> list[tuple[str, str, str]]:
    """(rule, resource, message) of each."""
    found = [
        (rule.name, resource.name, message)
        for rule in RESOURCE_RULES
        for resource in resources
        if resource.type in rule.types
        for message in rule.check(resource)
    ]
    return found + [(rule.name, one.name, message) for rule in STACK_RULES for one, message in rule.check(resources)]


@pytest.mark.parametrize("ids", [{}, KNOWN], ids=["preview", "after an update"])
def test_a_stack_as_it_should_be_passes_every_rule(ids: dict[str, str]) -> None:
    assert violations(as_seen(broken(), ids)) == []


@pytest.mark.parametrize("ids", [{}, KNOWN], ids=["preview", "after an update"])
@pytest.mark.parametrize("case", BREAKS, ids=[f"{one.rule}: {one.says[:40]}" for one in BREAKS])
def test_what_breaks_a_rule_is_found_with_its_place_and_breaks_no_other(case: Break, ids: dict[str, str]) -> None:
    found = violations(as_seen(broken(case), ids))
    assert {rule for rule, _, _ in found} == {case.rule}
    assert any(name == case.about and case.says in message for _, name, message in found), found


def test_every_rule_has_a_case_that_breaks_it() -> None:
    assert {one.rule for one in BREAKS} == {rule.name for rule in RULES}
    together = violations(as_seen(broken(*one_break_a_rule())))
    assert {rule for rule, _, _ in together} == {one.rule for one in BREAKS}


@pytest.mark.parametrize("case", BREAKS, ids=[f"{one.rule}: {one.says[:40]}" for one in BREAKS])
def test_every_message_says_what_to_do(case: Break) -> None:
    for _, _, message in violations(as_seen(broken(case))):
        assert any(f"{word} " in message for word in REMEDIES), message


def test_every_rule_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.description.endswith(".") for rule in RULES)


def test_the_readme_lists_every_rule() -> None:
    table = (Path(__file__).parents[2] / "policy/README.md").read_text()
    listed = {
        name
        for row in re.findall(r"^\| ([a-z0-9-]{5}.*?) \|", table, re.MULTILINE)
        for name in re.split(r"[, *]+", row)
    }
    assert {rule.name for rule in RULES} <= listed


@pytest.mark.parametrize(
    ("resource", "lacks"),
    [
        (Resource(LAUNCH_TEMPLATE, "t", {"networkInterfaces": UNKNOWN, "blockDeviceMappings": UNKNOWN}), "httpTokens"),
        (Resource("aws:eks/cluster:Cluster", "c", {"vpcConfig": UNKNOWN, "encryptionConfig": UNKNOWN}), ""),
        (Resource(HELM_RELEASE, "r", {"chart": "a", "version": UNKNOWN}), ""),
        (Resource(HELM_RELEASE, "r", {"chart": "charts/kuberay-operator"}), ""),
        (Resource(HELM_RELEASE, "r", {"chart": "oci://registry/kuberay-operator"}), "version not set"),
        (Resource("kubernetes:core/v1:Pod", "p", {"spec": {"containers": [{"name": "a", "image": "a@sha256:1"}]}}), ""),
    ],
)
def test_what_a_preview_cannot_know_is_not_held_against_it(resource: Resource, lacks: str) -> None:
    found = [message for _, _, message in violations([resource])]
    assert len(found) == bool(lacks)
    assert all(lacks in message for message in found)


def test_rules_of_a_group_to_itself_may_be_resources_of_their_own() -> None:
    stack = broken()
    itself: dict[str, Any] = {"securityGroupId": {"$id": "efa"}, "ipProtocol": "-1"}
    del stack["efa"]["props"]["ingress"], stack["efa"]["props"]["egress"]
    assert {rule for rule, _, _ in violations(as_seen(stack))} == {"efa-group-to-itself"}
    stack["out"] = {
        "type": "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
        "props": {**itself, "referencedSecurityGroupId": {"$id": "efa"}},
    }
    stack["in"] = {
        "type": "aws:ec2/securityGroupRule:SecurityGroupRule",
        "props": {"securityGroupId": {"$id": "efa"}, "type": "ingress", "protocol": "-1", "self": True},
    }
    assert violations(as_seen(stack)) == []


def test_two_subnets_of_one_zone_are_one_zone() -> None:
    stack = broken()
    stack["gpu"]["props"]["subnetIds"] = [{"$id": "private"}, {"$id": "elsewhere"}]
    stack["elsewhere"]["props"]["availabilityZone"] = "us-west-2b"
    assert violations(as_seen(stack)) == []
