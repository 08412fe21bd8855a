"""The stand-in's one-time schedules: what EventBridge refuses, and what has happened once their time is over."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.ttl import TtlArgs, right, trust
from tests.support.standin_account import StandinAccount
from tools.standin import tokens
from tools.standin.account import Entry
from tools.standin.errors import AwsError

NUMBER = "123456789012"
TARGET = "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"


@pytest.fixture
def account(tmp_path: Path) -> StandinAccount:
    return StandinAccount(tmp_path)


def schedule(account: StandinAccount, group: Entry, **changes: Any) -> Entry:
    """As infra.ttl makes it, in two hours."""
    cluster, name = group.inputs["clusterName"], group.inputs["nodeGroupName"]
    args = TtlArgs(until="", cluster_name=cluster, group_name=name, region="us-west-2", account=NUMBER, partition="aws")
    role = account.make(tokens.ROLE, name="ttl", assumeRolePolicy=json.dumps(changes.pop("trust", trust(NUMBER))))
    allowed = changes.pop("right", right(args, cluster))
    account.make(tokens.ROLE_POLICY, role="ttl", name="ttl", policy=json.dumps(allowed))
    asked = {"ClusterName": cluster, "NodegroupName": name}
    asked |= {"ScalingConfig": {"MinSize": 0, "DesiredSize": 0, "MaxSize": 1}}
    at = (datetime.now(UTC) + timedelta(hours=2)).strftime("at(%Y-%m-%dT%H:%M:%S)")
    target = {"arn": TARGET, "roleArn": role.outputs["arn"], "input": json.dumps(changes.pop("input", asked))}
    inputs = {"name": f"{name}-ttl", "scheduleExpression": at, "flexibleTimeWindow": {"mode": "OFF"}, "target": target}
    return account.make(tokens.SCHEDULE, **{**inputs, **changes})


def nodes(account: StandinAccount, group: Entry) -> int:
    found = account.cloud.read(tokens.NODE_GROUP, "urn:group", group.id)
    assert found is not None
    assert found.outputs["scalingConfig"]["desiredSize"] == found.hidden["running"]["count"]
    return int(found.outputs["scalingConfig"]["desiredSize"])


def test_a_group_has_its_nodes_until_the_time_comes_and_none_after_it(account: StandinAccount) -> None:
    group = account.nodes(account.cluster(), account.template())
    schedule(account, group)
    before = nodes(account, group)
    assert before > 0
    account.scenario(ahead=3 * 3600)
    assert nodes(account, group) == 0
    account.change(account.there(tokens.NODE_GROUP, group.id), scalingConfig=group.inputs["scalingConfig"])
    assert nodes(account, group) == before, "it happens once"


def test_a_later_time_is_waited_for_as_the_first_was(account: StandinAccount) -> None:
    group = account.nodes(account.cluster(), account.template())
    made = schedule(account, group)
    later = (datetime.now(UTC) + timedelta(hours=6)).strftime("at(%Y-%m-%dT%H:%M:%S)")
    account.change(made, scheduleExpression=later)
    account.scenario(ahead=3 * 3600)
    assert nodes(account, group) > 0
    account.scenario(ahead=7 * 3600)
    assert nodes(account, group) == 0


def test_a_role_that_may_not_changes_nothing(account: StandinAccount) -> None:
    group = account.nodes(account.cluster(), account.template())
    elsewhere = {"Effect": "Allow", "Action": "eks:UpdateNodegroupConfig", "Resource": "arn:aws:eks:::nodegroup/x/y/*"}
    schedule(account, group, right={"Version": "2012-10-17", "Statement": [elsewhere]})
    account.scenario(ahead=3 * 3600)
    assert nodes(account, group) > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"input": {"clusterName": "ray", "nodegroupName": "gpu"}},
            "missing the following field.*ClusterName, Nodegroup",
        ),
        ({"input": {"ClusterName": "ray", "NodegroupName": "g", "Scaling": {}}}, "unknown field.*Scaling"),
        ({"scheduleExpression": "at(2026-12-01T18:00:00Z)"}, "Invalid Schedule Expression"),
        ({"name": "a" * 65}, "is no name of a schedule"),
        ({"trust": {"Version": "2012-10-17", "Statement": []}}, "must allow AWS EventBridge Scheduler to assume"),
    ],
)
def test_what_eventbridge_would_not_take_is_refused(
    account: StandinAccount, changes: dict[str, Any], said: str
) -> None:
    group = account.nodes(account.cluster(), account.template())
    with pytest.raises(AwsError, match=f"ValidationException: .*{said}"):
        schedule(account, group, **changes)


def test_two_of_one_name_are_refused(account: StandinAccount) -> None:
    group = account.nodes(account.cluster(), account.template())
    made = schedule(account, group)
    with pytest.raises(AwsError, match="ConflictException"):
        account.make(tokens.SCHEDULE, **made.inputs)
