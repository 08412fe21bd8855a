"""A stand-in account used directly, without the engine: what a stack like ours makes, piece by piece."""

import json
import threading
from pathlib import Path
from typing import Any

from tools.standin import calls, tokens
from tools.standin.account import Entry
from tools.standin.cloud import Cloud, Configuration

ZONE = "us-west-2a"


def trust(service: str) -> str:
    principal = {"Service": service}
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


class StandinAccount:
    """`make` creates with what a type needs filled in; every keyword is an input and goes over that."""

    def __init__(self, folder: Path, region: str = "us-west-2", **scenario: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.cancelled = threading.Event()
        self.cloud = Cloud(folder, Configuration(region=region, default_tags={"stack": "test"}), self.cancelled)
        self.scenario(**scenario)

    def scenario(self, **content: Any) -> None:
        (self.folder / "scenario.json").write_text(json.dumps(content))

    def make(self, token: str, /, **inputs: Any) -> Entry:
        return self.cloud.create(token, f"urn:pulumi:test::p::{token}::made", inputs)

    def there(self, token: str, id: str) -> Entry:
        with self.cloud.account.open() as records:
            entry = records.get(token, id)
        assert entry is not None, f"no {token} {id}"
        return entry

    def all(self, token: str) -> list[Entry]:
        with self.cloud.account.open() as records:
            return records.all(token)

    def change(self, entry: Entry, **inputs: Any) -> Entry:
        urn = f"urn:pulumi:test::p::{entry.token}::made"
        return self.cloud.update(entry.token, urn, entry.id, {**entry.inputs, **inputs})

    def delete(self, entry: Entry) -> None:
        self.cloud.delete(entry.token, f"urn:pulumi:test::p::{entry.token}::made", entry.id)

    def vpc(self) -> Entry:
        return self.make(tokens.VPC, cidrBlock="10.0.0.0/16")

    def subnet(self, vpc: Entry, cidr: str, zone: str = ZONE, *, routed: bool = True) -> Entry:
        """With a default route, unless told otherwise."""
        subnet = self.make(tokens.SUBNET, vpcId=vpc.id, cidrBlock=cidr, availabilityZone=zone)
        if routed:
            with self.cloud.account.open() as records:
                there = [
                    gateway for gateway in records.all(tokens.INTERNET_GATEWAY) if gateway.inputs["vpcId"] == vpc.id
                ]
            gateway = there[0] if there else self.make(tokens.INTERNET_GATEWAY, vpcId=vpc.id)
            table = self.make(tokens.ROUTE_TABLE, vpcId=vpc.id)
            self.make(tokens.ROUTE, routeTableId=table.id, destinationCidrBlock="0.0.0.0/0", gatewayId=gateway.id)
            self.make(tokens.ROUTE_TABLE_ASSOCIATION, routeTableId=table.id, subnetId=subnet.id)
        return subnet

    def role(self, service: str, name: str) -> Entry:
        return self.make(tokens.ROLE, name=name, assumeRolePolicy=trust(service))

    def cluster(self, *, name: str = "ray", routed: bool = True, **inputs: Any) -> Entry:
        vpc = self.vpc()
        subnets = [
            self.subnet(vpc, "10.0.0.0/20", routed=routed),
            self.subnet(vpc, "10.0.16.0/20", "us-west-2b", routed=routed),
        ]
        role = self.role("eks.amazonaws.com", f"{name}-cluster")
        given = {"roleArn": role.outputs["arn"], "version": "1.34", **inputs}
        return self.make(tokens.CLUSTER, name=name, vpcConfig={"subnetIds": [subnet.id for subnet in subnets]}, **given)

    def reservation(self, count: int = 2, **inputs: Any) -> Entry:
        given = {
            "instanceType": "g6.12xlarge",
            "instancePlatform": "Linux/UNIX",
            "availabilityZone": ZONE,
            "instanceMatchCriteria": "targeted",
            **inputs,
        }
        return self.make(tokens.CAPACITY_RESERVATION, instanceCount=count, **given)

    def template(self, *, reservation: Entry | None = None, group: str = "", **inputs: Any) -> Entry:
        given: dict[str, Any] = {"instanceType": "g6.12xlarge"}
        if reservation:
            target = {"capacityReservationId": reservation.id}
            given["capacityReservationSpecification"] = {"capacityReservationTarget": target}
        if group:
            given["placement"] = {"groupName": group}
        return self.make(tokens.LAUNCH_TEMPLATE, name="gpu", **{**given, **inputs})

    def nodes(self, cluster: Entry, template: Entry, count: int = 2, *, name: str = "gpu", **inputs: Any) -> Entry:
        """A node group in the cluster's first subnet, its role made where there is none."""
        with self.cloud.account.open() as records:
            role = records.get(tokens.ROLE, "node")
        role = role or self.role("ec2.amazonaws.com", "node")
        given = {
            "clusterName": cluster.id,
            "nodeGroupName": name,
            "nodeRoleArn": role.outputs["arn"],
            "subnetIds": cluster.outputs["vpcConfig"]["subnetIds"][:1],
            "launchTemplate": {"id": template.id, "version": str(template.outputs["latestVersion"])},
            "scalingConfig": {"desiredSize": count, "minSize": count, "maxSize": max(count, 1)},
            **inputs,
        }
        return self.make(tokens.NODE_GROUP, **given)

    def calls(self, *, token: str = "", operation: str = "") -> list[dict[str, Any]]:
        there = calls.read(self.folder)
        return [call for call in there if token in ("", call["type"]) and operation in ("", call["operation"])]

    def remaining(self) -> list[str]:
        return [entry.token for entry in self.cloud.account.remaining()]
