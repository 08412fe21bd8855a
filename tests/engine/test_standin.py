"""The stand-in `aws` plugin on the real CLI: a small network, a reservation, a cluster and its GPU nodes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.standin import calls, plugins, tokens
from tools.standin.account import Account
from tools.standin.aws_cli import VARIABLE

pytestmark = pytest.mark.engine

PROGRAM = """
import json

import pulumi
import pulumi_aws as aws

config = pulumi.Config()
nodes = config.get_int("nodes") or 2
tags = {"stack": config.get("stackTag") or "test"}
provider = aws.Provider("aws", region="us-west-2", default_tags={"tags": tags}, allowed_account_ids=["123456789012"])
opts = pulumi.ResourceOptions(provider=provider)
zones = aws.get_availability_zones(state="available", opts=pulumi.InvokeOptions(provider=provider))
pulumi.export("zones", dict(zip(zones.names, zones.zone_ids)))

vpc = aws.ec2.Vpc("net", cidr_block="10.20.0.0/16", tags={"Name": config.get("vpcName") or "net"}, opts=opts)
gateway = aws.ec2.InternetGateway("net", vpc_id=vpc.id, opts=opts)
table = aws.ec2.RouteTable("net", vpc_id=vpc.id, opts=opts)
route = aws.ec2.Route(
    "net", route_table_id=table.id, destination_cidr_block="0.0.0.0/0", gateway_id=gateway.id, opts=opts)
subnets, out = [], [route]
for at, zone in enumerate(zones.names[:2]):
    subnets.append(aws.ec2.Subnet(
        zone, vpc_id=vpc.id, cidr_block=f"10.20.{at * 16}.0/20", availability_zone=zone, opts=opts))
    out.append(aws.ec2.RouteTableAssociation(zone, route_table_id=table.id, subnet_id=subnets[at].id, opts=opts))


def role(name, service, policy):
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    made = aws.iam.Role(name, assume_role_policy=json.dumps(document), opts=opts)
    arn = f"arn:aws:iam::aws:policy/{policy}"
    return made, aws.iam.RolePolicyAttachment(name, role=made.name, policy_arn=arn, opts=opts)


reservation = aws.ec2.CapacityReservation(
    "gpu", instance_type="g6.12xlarge", instance_platform="Linux/UNIX", availability_zone=zones.names[0],
    instance_count=nodes, instance_match_criteria="targeted", opts=opts)
control, attached = role("control", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
cluster = aws.eks.Cluster(
    "eks", name="ray", role_arn=control.arn, version="1.34", vpc_config={"subnet_ids": [it.id for it in subnets]},
    opts=pulumi.ResourceOptions(provider=provider, depends_on=[attached, reservation]))
template = aws.ec2.LaunchTemplate(
    "gpu", instance_type="g6.12xlarge", metadata_options={"http_tokens": config.get("tokens") or "required"},
    capacity_reservation_specification={"capacity_reservation_target": {"capacity_reservation_id": reservation.id}},
    opts=opts)
worker, worker_policy = role("node", "ec2.amazonaws.com", "AmazonEKSWorkerNodePolicy")
group = aws.eks.NodeGroup(
    "gpu", cluster_name=cluster.name, node_role_arn=worker.arn, subnet_ids=[subnets[0].id],
    launch_template={"id": template.id, "version": template.latest_version.apply(str)},
    scaling_config={"desired_size": nodes, "min_size": nodes, "max_size": nodes},
    update_config={"max_unavailable": 1, "update_strategy": "MINIMAL"},
    opts=pulumi.ResourceOptions(provider=provider, depends_on=[*out, worker_policy]))
pulumi.export("tags", group.tags_all)
pulumi.export("status", group.status)
pulumi.export("securityGroup", cluster.vpc_config.cluster_security_group_id)
"""


class Stack:
    """The program above (or another one) on a private home, backend and account."""

    def __init__(self, folder: Path, program: str = PROGRAM) -> None:
        self.folder, self.account = folder / "program", folder / "account"
        for path in (self.folder, self.account, folder / "backend"):
            path.mkdir(parents=True)
        plugins.write_launchers(folder / "home")
        (self.folder / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
        (self.folder / "__main__.py").write_text(program)
        (self.folder / ".venv").symlink_to(Path(sys.prefix))
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "AWS_"))},
            "PATH": f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_BACKEND_URL": (folder / "backend").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PYTHONDONTWRITEBYTECODE": "1",
            VARIABLE: str(self.account),
        }
        self.must("stack", "init", "test")

    def scenario(self, **content: Any) -> None:
        (self.account / "scenario.json").write_text(json.dumps(content))

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["pulumi", *command, "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )

    def must(self, *command: str) -> str:
        done = self.run(*command)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def set(self, **settings: str) -> None:
        for key, value in settings.items():
            self.must("config", "set", key, value)

    def up(self) -> "subprocess.CompletedProcess[str]":
        return self.run("up", "--yes", "--skip-preview")

    def changes(self) -> dict[str, str]:
        """What a preview would do, by type and name; what stays as it is left out."""
        steps = json.loads(self.must("preview", "--json"))["steps"]
        return {
            step["urn"].partition("::small::")[2]: step["op"] for step in steps if step["op"] not in ("same", "read")
        }

    def outputs(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.must("stack", "output", "--json"))
        return found

    def destroy(self) -> None:
        self.must("destroy", "--yes", "--skip-preview")

    def order(self, operation: str) -> list[str]:
        return [tokens.kind_of(call["type"]) for call in calls.read(self.account) if call["operation"] == operation]

    def left(self) -> list[str]:
        return [entry.id for entry in Account(self.account).remaining()]


def test_a_stack_comes_up_stays_as_it_is_changes_and_goes(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    assert "19 to create" in stack.must("preview")
    assert stack.left() == [], "a preview makes nothing"
    done = stack.up()
    assert "19 created" in done.stdout, done.stdout
    outputs = stack.outputs()
    assert outputs["tags"] == {"stack": "test"}
    assert outputs["status"] == "ACTIVE"
    assert outputs["zones"]["us-west-2a"] == "usw2-az2"
    assert outputs["securityGroup"] in stack.left()
    created = stack.order("create")
    assert created.index("CapacityReservation") < created.index("Cluster") < created.index("NodeGroup")

    assert stack.changes() == {}
    assert "19 unchanged" in stack.must("refresh", "--yes", "--skip-preview")
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
