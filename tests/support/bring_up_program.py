"""A stack that has what a GPU stack stands on: reservation in a group, network, control plane, nodes in one zone."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.support.standin_account import trust
from tools.standin import tokens

TYPE, NODES = "g6.12xlarge", 2
Ids = Callable[[str], str]


def program(name: str, region: str, zone: str) -> Iterator[tuple[str, tuple[str, Callable[[Ids], dict[str, Any]]]]]:
    """What a stack declares, in the order in which it is made: name, and type with inputs by the others' ids."""
    zones = list(dict.fromkeys([f"{region}a", f"{region}b", zone]))

    def of(token: str, **fixed: Any) -> tuple[str, Callable[[Ids], dict[str, Any]]]:
        return token, lambda ids: {key: value(ids) if callable(value) else value for key, value in fixed.items()}

    def named(tag: str) -> Mapping[str, str]:
        return {"Name": tag}

    yield "group", of(tokens.PLACEMENT_GROUP, name="auto", strategy="cluster")
    yield (
        "capacity",
        of(
            tokens.CAPACITY_RESERVATION,
            availabilityZone=zone,
            instanceType=TYPE,
            instanceCount=NODES,
            instancePlatform="Linux/UNIX",
            instanceMatchCriteria="targeted",
            placementGroupArn=lambda ids: f"arn:aws:ec2:{region}:123456789012:placement-group/{ids('group')}",
            tags=named("gpu"),
        ),
    )
    yield "vpc", of(tokens.VPC, cidrBlock="10.0.0.0/16", tags=named("net"))
    yield "internet", of(tokens.INTERNET_GATEWAY, vpcId=lambda ids: ids("vpc"), tags=named("net"))
    yield "table", of(tokens.ROUTE_TABLE, vpcId=lambda ids: ids("vpc"), tags=named("net"))
    yield (
        "route",
        of(
            tokens.ROUTE,
            routeTableId=lambda ids: ids("table"),
            destinationCidrBlock="0.0.0.0/0",
            gatewayId=lambda ids: ids("internet"),
        ),
    )
    for each in zones:
        cidr = f"10.0.{'abcdefg'.index(each[-1]) * 32}.0/19"
        subnet = of(
            tokens.SUBNET,
            vpcId=lambda ids: ids("vpc"),
            cidrBlock=cidr,
            availabilityZone=each,
            tags=named(each),
        )
        yield each, subnet
        yield (
            f"{each}-table",
            of(
                tokens.ROUTE_TABLE_ASSOCIATION,
                routeTableId=lambda ids: ids("table"),
                subnetId=lambda ids, each=each: ids(each),
            ),
        )
    for role, service in (("control", "eks"), ("node", "ec2")):
        yield role, of(tokens.ROLE, name="auto", assumeRolePolicy=trust(f"{service}.amazonaws.com"))
    yield (
        "cluster",
        of(
            tokens.CLUSTER,
            name=name,
            roleArn=lambda ids: f"arn:aws:iam::123456789012:role/{ids('control')}",
            vpcConfig=lambda ids: {"subnetIds": [ids(each) for each in zones[:2]]},
        ),
    )
    yield (
        "template",
        of(
            tokens.LAUNCH_TEMPLATE,
            name="auto",
            instanceType=TYPE,
            placement=lambda ids: {"groupName": ids("group")},
            capacityReservationSpecification=lambda ids: {
                "capacityReservationTarget": {"capacityReservationId": ids("capacity")}
            },
        ),
    )
    yield (
        "gpu-group",
        of(
            tokens.NODE_GROUP,
            clusterName=name,
            nodeGroupName=f"{name}-gpu",
            nodeRoleArn=lambda ids: f"arn:aws:iam::123456789012:role/{ids('node')}",
            subnetIds=lambda ids: [ids(zone)],
            scalingConfig={"desiredSize": NODES, "minSize": NODES, "maxSize": NODES},
            launchTemplate=lambda ids: {"id": ids("template"), "version": "1"},
        ),
    )
