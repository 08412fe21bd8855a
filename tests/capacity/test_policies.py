"""The IAM policies of probes and audits: each allows what is called, and nothing else."""

import json
from typing import Any

import pytest

from capacity.audit import audit
from capacity.probe import probe
from capacity.probe_reservation import PROBE_TAG
from tests.capacity.test_audit import NAME, OURS, TAGS, WEST, bucket, cluster, node_group, subnet
from tests.capacity.test_probe import NOW, REQUEST, A, put
from tests.support.aws_server import AwsServer
from tests.support.project import ROOT
from tools.standin.iam_policy import actions_of

# Where IAM's name of an action is not service:Call.
NAMES = {
    "s3:ListBuckets": "s3:ListAllMyBuckets",
    "elb:DescribeLoadBalancers": "elasticloadbalancing:DescribeLoadBalancers",
    "elbv2:DescribeLoadBalancers": "elasticloadbalancing:DescribeLoadBalancers",
    "elb:DescribeTags": "elasticloadbalancing:DescribeTags",
    "elbv2:DescribeTags": "elasticloadbalancing:DescribeTags",
}


def policy(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / "docs/iam" / name).read_text())
    return content


def allowed(content: dict[str, Any]) -> set[str]:
    return {action for statement in content["Statement"] for action in actions_of(statement)}


def called(aws: AwsServer) -> set[str]:
    found = {f"{service}:{operation}" for service, operation, _ in aws.calls}
    return {NAMES.get(action, action) for action in found}


def test_an_audit_calls_what_its_policy_allows_and_all_of_it(aws: AwsServer) -> None:
    cluster(aws)
    node_group(aws, "gpu")
    bucket(aws, f"{NAME}-abc", OURS)
    vpc, net = subnet(aws, tags=OURS)
    other = aws.client("ec2").create_subnet(VpcId=vpc, CidrBlock="10.9.1.0/24", AvailabilityZone="us-west-2b")
    aws.client("elbv2").create_load_balancer(Name="lb", Subnets=[net, other["Subnet"]["SubnetId"]], Tags=OURS)
    aws.client("kms").create_key(Tags=[{"TagKey": key, "TagValue": value} for key, value in TAGS.items()])
    audit([WEST], TAGS)
    assert called(aws) == allowed(policy("audit-read.json"))


def test_a_probe_calls_what_its_policy_allows_and_tags_what_it_makes(aws: AwsServer) -> None:
    put(aws, "by hand")
    probe(REQUEST, [A], say=lambda _line: None, by=NOW)
    # Tags in the request are checked as a call of their own.
    assert called(aws) | {"ec2:CreateTags"} == allowed(policy("capacity-probe.json"))


@pytest.mark.parametrize("name", ["audit-read.json", "capacity-probe.json"])
def test_no_policy_changes_anything_but_what_a_probe_made(name: str) -> None:
    for statement in policy(name)["Statement"]:
        for action in actions_of(statement):
            verb = action.partition(":")[2]
            assert "*" not in action
            if not verb.startswith(("Describe", "List", "Get")):
                assert "Condition" in statement, action
                assert PROBE_TAG in json.dumps(statement["Condition"]) or verb == "CreateTags"
