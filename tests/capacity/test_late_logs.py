"""The log group that EKS makes anew for a cluster that is gone is out of the next one's way; nobody else's is."""

import time
from collections.abc import Mapping
from typing import Any

import pytest

from capacity.late_logs import ended
from efactl import down
from efactl.exit_codes import ExitCode
from tests.capacity.test_audit import WEST, cluster
from tests.capacity.test_down import EksStack, guard
from tests.support.aws_server import AwsServer, Fault

GROUP = "/aws/eks/ray-dev/cluster"


def groups(aws: AwsServer) -> list[str]:
    return [one["logGroupName"] for one in aws.client("logs").describe_log_groups()["logGroups"]]


def made(aws: AwsServer, name: str = GROUP, **more: Any) -> None:
    aws.client("logs").create_log_group(logGroupName=name, **more)


def test_what_a_gone_cluster_left_is_deleted_and_others_stay(aws: AwsServer) -> None:
    made(aws)
    made(aws, "/aws/eks/ray-dev/cluster-2")
    assert ended("ray-dev", [], region=WEST) == GROUP
    assert groups(aws) == ["/aws/eks/ray-dev/cluster-2"]
    assert ended("ray-dev", [], region=WEST) == ""


def test_one_with_a_tag_a_retention_or_more_than_last_lines_is_somebodys(aws: AwsServer) -> None:
    made(aws, tags={"owner": "them"})
    assert ended("ray-dev", [], region=WEST) == ""
    made(aws, "/aws/eks/kept/cluster")
    aws.client("logs").put_retention_policy(logGroupName="/aws/eks/kept/cluster", retentionInDays=7)
    assert ended("kept", [], region=WEST) == ""
    made(aws, "/aws/eks/large/cluster")
    aws.client("logs").create_log_stream(logGroupName="/aws/eks/large/cluster", logStreamName="api")
    now = int(time.time() * 1000)
    lines = [{"timestamp": now + number, "message": "x" * 250_000} for number in range(5)]
    for line in lines:
        aws.client("logs").put_log_events(logGroupName="/aws/eks/large/cluster", logStreamName="api", logEvents=[line])
    assert ended("large", [], region=WEST) == ""
    assert len(groups(aws)) == 3


@pytest.mark.parametrize(
    "state",
    [
        {"type": "aws:cloudwatch/logGroup:LogGroup", "id": GROUP},
        {"type": "aws:eks/cluster:Cluster", "id": "ray-dev"},
    ],
)
def test_what_the_stack_has_is_its_own(aws: AwsServer, state: Mapping[str, Any]) -> None:
    made(aws)
    assert ended("ray-dev", [state], region=WEST) == ""
    assert groups(aws) == [GROUP]


def test_a_cluster_that_is_there_keeps_its_logs(aws: AwsServer) -> None:
    cluster(aws)
    made(aws)
    assert ended("ray-dev", [], region=WEST) == ""
    assert groups(aws) == [GROUP]


def test_one_that_may_not_be_deleted_is_left_to_the_look_that_names_it(
    aws: AwsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    made(aws, "/aws/eks/ray-local/cluster")
    aws.faults = [Fault("DeleteLogGroup", "AccessDeniedException", "not authorized to perform: logs:DeleteLogGroup")]
    assert down.down(EksStack(resources=[guard()]), as_json=False) == ExitCode.OK
    assert "left, and free of charge: log group /aws/eks/ray-local/cluster" in capsys.readouterr().out


def test_a_destroy_deletes_it_once_more_and_says_so(aws: AwsServer, capsys: pytest.CaptureFixture[str]) -> None:
    made(aws, "/aws/eks/ray-local/cluster")
    stack = EksStack(resources=[guard()])
    assert down.down(stack, as_json=False) == ExitCode.OK
    said = capsys.readouterr()
    assert "log group /aws/eks/ray-local/cluster in us-west-2 is deleted" in said.err
    assert "log group" not in said.out
    assert groups(aws) == []
