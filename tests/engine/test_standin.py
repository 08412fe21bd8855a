"""The stand-in `aws` plugin on the real CLI."""

from pathlib import Path

import pytest

from tests.support.standin_stack import Stack
from tools.standin import calls, tokens

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


def test_a_node_group_that_failed_is_in_the_state_and_a_second_up_takes_it_as_it_is(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    fault = {"type": "NodeGroup", "operation": "create", "code": "AsgInstanceLaunchFailures", "silence": 1500}
    stack.scenario(faults=[{**fault, "partial": "CREATE_FAILED"}])
    done = stack.up()
    assert done.returncode != 0
    assert "AsgInstanceLaunchFailures" in done.stdout
    # As the bridge under the real provider does it: nothing differs, so AWS is not asked, and the failure is forgotten.
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


def test_a_cluster_deleted_outside_does_not_keep_the_stack_from_being_destroyed(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    assert stack.up().returncode == 0
    stack.scenario(gone=["Cluster"])
    stack.destroy()
    assert stack.left() == []
