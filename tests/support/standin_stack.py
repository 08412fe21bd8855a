"""A small program on the real CLI with the stand-in `aws` plugin: network, reservation, cluster, GPU nodes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from capacity import file_backend
from tools.standin import calls, plugins, tokens
from tools.standin.account import Account
from tools.standin.aws_cli import VARIABLE

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
            "PULUMI_BACKEND_URL": file_backend.url_of(folder / "backend"),
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
