"""The stand-in `aws` plugin on the real CLI."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.standin_stack import Stack
from tools.standin import calls, tokens
from tools.standin.account import Account

pytestmark = pytest.mark.engine


def test_a_stack_comes_up_stays_as_it_is_changes_and_goes(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    assert "18 to create" in stack.must("preview")
    assert stack.left() == [], "a preview makes nothing"
    done = stack.up()
    assert "18 created" in done.stdout, done.stdout
    outputs = stack.outputs()
    assert outputs["tags"] == {"stack": "test"}
    assert outputs["status"] == "ACTIVE"
    assert outputs["zones"]["us-west-2a"] == "usw2-az2"
    assert outputs["securityGroup"] in stack.left()
    created = stack.order("create")
    assert created.index("CapacityReservation") < created.index("Cluster") < created.index("NodeGroup")

    assert stack.changes() == {}
    assert "18 unchanged" in stack.must("refresh", "--yes", "--skip-preview")
    assert stack.changes() == {}, "what was read back is what was declared"

    stack.set(tokens="optional")
    gpu, template = f"{tokens.NODE_GROUP}::gpu", f"{tokens.LAUNCH_TEMPLATE}::gpu"
    assert stack.changes() == {template: "update", gpu: "update"}, "a new version of the template rolls the nodes"
    assert "2 updated" in stack.up().stdout
    stack.set(stackTag="other")
    assert f"{tokens.VPC}::net" in stack.changes(), "the provider's tags are on everything that has tags"

    stack.destroy()
    assert stack.left() == []
    deleted = stack.order("delete")
    assert deleted.index("NodeGroup") < deleted.index("Cluster") < deleted.index("Subnet") < deleted.index("Vpc")


@pytest.mark.full
def test_what_cannot_change_in_place_replaces_and_a_given_name_goes_first(tmp_path: Path) -> None:
    stack = Stack(
        tmp_path,
        "import pulumi, pulumi_aws as aws\n"
        "strategy = pulumi.Config().get('strategy') or 'cluster'\n"
        "aws.ec2.PlacementGroup('named', name='gpu', strategy=strategy)\n"
        "aws.ec2.PlacementGroup('made', strategy=strategy)\n",
    )
    stack.set(**{"aws:region": "us-west-2"})
    assert "3 created" in stack.up().stdout
    stack.set(strategy="spread")
    done = stack.up()
    assert done.returncode == 0, done.stdout
    operations = [
        (call["operation"], "gpu" if call["id"] == "gpu" else "made")
        for call in calls.read(stack.account)
        if call["operation"] in ("create", "delete")
    ]
    mine = [what for what, name in operations if name == "gpu"]
    assert mine == ["create", "delete", "create"], "two of one name cannot be there at a time"
    made = [what for what, name in operations if name == "made"]
    assert made == ["create", "create", "delete"], "a name that the provider made is another one each time"
    stack.destroy()
    assert stack.left() == []


def test_a_property_that_the_sdk_does_not_know_stops_the_preview(tmp_path: Path) -> None:
    program = "import pulumi_aws as aws\naws.ec2.LaunchTemplate('gpu', network_interfaces=[{'deviceIndx': 0}])\n"
    stack = Stack(tmp_path, program)
    stack.set(**{"aws:region": "us-west-2"})
    done = stack.run("preview")
    assert done.returncode != 0
    assert "deviceIndx" in done.stdout
    assert "deviceIndex" in done.stdout, "the message has the names there are"


def test_no_capacity_fails_the_up_before_anything_that_costs_and_the_next_one_goes_on(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    stack.scenario(
        faults=[{"type": "CapacityReservation", "operation": "create", "code": "InsufficientInstanceCapacity"}]
    )
    done = stack.up()
    assert done.returncode != 0
    assert "api error InsufficientInstanceCapacity" in done.stdout
    assert "Cluster" not in stack.order("create")
    assert stack.up().returncode == 0
    assert stack.outputs()["status"] == "ACTIVE"
    stack.destroy()
    assert stack.left() == []


@pytest.mark.full
def test_a_node_group_that_failed_is_in_the_state_and_a_second_up_takes_it_as_it_is(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    fault = {"type": "NodeGroup", "operation": "create", "code": "AsgInstanceLaunchFailures", "silence": 1500}
    stack.scenario(faults=[{**fault, "partial": "CREATE_FAILED"}])
    done = stack.up()
    assert done.returncode != 0
    assert "AsgInstanceLaunchFailures" in done.stdout
    # As the bridge under the real provider does it: nothing differs, so AWS is not told, and the failure is forgotten.
    assert stack.up().returncode == 0
    assert stack.outputs()["status"] == "CREATE_FAILED"
    stack.destroy()
    assert stack.left() == []


def test_credentials_that_expire_mid_way_fail_what_is_left_and_the_next_up_does_it(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    stack.scenario(expire_after=8)
    done = stack.up()
    assert done.returncode != 0
    assert "ExpiredToken" in done.stdout
    stack.scenario()
    assert stack.up().returncode == 0
    stack.destroy()
    assert stack.left() == []


@pytest.mark.full
def test_a_cluster_deleted_outside_does_not_keep_the_stack_from_being_destroyed(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    assert stack.up().returncode == 0
    stack.scenario(gone=["Cluster"])
    stack.destroy()
    assert stack.left() == []


@pytest.mark.full
def test_a_change_that_failed_is_not_tried_by_the_next_up_but_by_the_one_after_it_or_with_a_refresh(
    tmp_path: Path,
) -> None:
    stack = Stack(tmp_path)
    assert stack.up().returncode == 0
    stack.set(tokens="optional")
    stack.scenario(faults=[{"type": "NodeGroup", "operation": "update", "code": "AsgInstanceLaunchFailures"}])
    done = stack.up()
    assert done.returncode != 0
    assert "AsgInstanceLaunchFailures" in done.stdout
    # As the bridge under the real provider does it: the state has what was planned, with the error beside it.
    updates = len(stack.order("update"))
    assert stack.up().returncode == 0
    assert len(stack.order("update")) == updates, "it only reads what there is"
    assert stack.changes() == {f"{tokens.NODE_GROUP}::gpu": "update"}
    stack.scenario(faults=[{"type": "NodeGroup", "operation": "update", "code": "ResourceLimitExceeded", "skip": 1}])
    assert stack.up().returncode != 0
    updates = len(stack.order("update"))
    assert stack.run("up", "--yes", "--skip-preview", "--refresh").returncode == 0
    assert stack.order("update")[updates:] == ["NodeGroup"]
    group = next(entry for entry in Account(stack.account).remaining() if entry.token == tokens.NODE_GROUP)
    assert group.inputs["launchTemplate"]["version"] == "2"


ENCRYPTED = """
import json
import pulumi
import pulumi_aws as aws

key = pulumi.Config().get("key") or ""
vpc = aws.ec2.Vpc("net", cidr_block="10.20.0.0/16")
subnets = [
    aws.ec2.Subnet(zone, vpc_id=vpc.id, cidr_block=f"10.20.{at * 16}.0/20", availability_zone=f"us-west-2{zone}")
    for at, zone in enumerate("ab")]
trust = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
role = aws.iam.Role("control", assume_role_policy=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))
keys = {name: aws.kms.Key(name) for name in ("one", "two")}
config = {"provider": {"key_arn": keys[key].arn}, "resources": ["secrets"]} if key else None
cluster = aws.eks.Cluster(
    "eks", name="ray", role_arn=role.arn, vpc_config={"subnet_ids": [it.id for it in subnets]},
    encryption_config=config)
pulumi.export("key", cluster.encryption_config.apply(lambda found: found and found.provider.key_arn))
for name in keys:
    pulumi.export(name, keys[name].arn)
"""


@pytest.mark.full
def test_a_key_for_secrets_comes_in_place_stays_for_good_and_only_leaving_it_out_replaces(tmp_path: Path) -> None:
    stack = Stack(tmp_path, ENCRYPTED)
    stack.set(**{"aws:region": "us-west-2"})
    assert stack.up().returncode == 0
    cluster = f"{tokens.CLUSTER}::eks"
    for key in ("one", "two"):
        stack.set(key=key)
        assert stack.changes() == {cluster: "update"}
        assert stack.up().returncode == 0
        assert stack.outputs()["key"] == stack.outputs()["one"]
    assert stack.changes() == {cluster: "update"}, "what EKS was never told stays a change"
    stack.set(key="")
    assert stack.changes()[cluster] == "replace"
    stack.destroy()


RESERVED = """
import pulumi
import pulumi_aws as aws

aws.ec2.CapacityReservation(
    "gpu", instance_type="g6.12xlarge", instance_platform="Linux/UNIX", availability_zone="us-west-2a",
    instance_count=2, end_date_type="limited", end_date=pulumi.Config().require("until"))
"""


@pytest.mark.full
def test_a_reservation_past_its_end_cannot_be_cancelled_until_a_refresh_takes_it_for_gone(tmp_path: Path) -> None:
    stack = Stack(tmp_path, RESERVED)
    until = datetime.now(UTC) + timedelta(days=1)
    stack.set(**{"aws:region": "us-west-2", "until": until.strftime("%Y-%m-%dT%H:%M:%SZ")})
    assert stack.up().returncode == 0
    stack.scenario(ahead=2 * 86_400)
    done = stack.run("destroy", "--yes", "--skip-preview")
    assert done.returncode != 0
    assert "api error IncorrectState" in done.stdout
    assert "1 deleted" in stack.must("refresh", "--yes", "--skip-preview")
    stack.destroy()
    assert stack.left() == []


def test_a_question_about_what_is_not_there_fails_in_the_providers_words(tmp_path: Path) -> None:
    stack = Stack(tmp_path, "import pulumi_aws as aws\naws.eks.get_cluster(name='ray')\n")
    stack.set(**{"aws:region": "us-west-2"})
    done = stack.run("preview")
    assert done.returncode != 0
    assert "reading EKS Cluster (ray): couldn't find resource" in done.stdout
    assert "ResourceNotFoundException" not in done.stdout
