"""What the network registers for each kind of egress, what waits for what, and what is not there."""

import dataclasses
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from infra.network import Network, NetworkArgs
from infra.zones import ZonePlan
from tests.mocks.recording import Recording, Registered, run

A, B, D = "us-west-2a", "us-west-2b", "us-west-2d"
VPC = "aws:ec2/vpc:Vpc"
SUBNET = "aws:ec2/subnet:Subnet"
INTERNET = "aws:ec2/internetGateway:InternetGateway"
ADDRESS = "aws:ec2/eip:Eip"
NAT = "aws:ec2/natGateway:NatGateway"
TABLE = "aws:ec2/routeTable:RouteTable"
ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
ROUTE = "aws:ec2/route:Route"
ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
GROUP = "aws:ec2/securityGroup:SecurityGroup"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
FREE = {VPC, SUBNET, INTERNET, TABLE, ASSOCIATION, ROUTE, GROUP, INGRESS}


class Probe(pulumi.CustomResource):
    """Stands for the control plane, for nodes, and for the reservation: its dependencies are what they wait for."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__("test:index:Probe", name, options.pop("inputs", {}), pulumi.ResourceOptions(**options))


def made_with(**changes: Any) -> Recording:
    def program() -> pulumi.Output[str]:
        reservation = Probe("reservation")
        args = NetworkArgs(
            name="ray-dev",
            cidr="10.20.0.0/16",
            zones=ZonePlan(gpu=D, control_plane=(A, B), all=(D, A, B)),
            nat="one",
            endpoints=["s3"],
            billed_after=[reservation],
        )
        network = Network("net", dataclasses.replace(args, **changes))
        Probe("control-plane", inputs={"subnets": network.control_plane_subnets})
        Probe("nodes", inputs={"subnet": network.gpu_subnet}, depends_on=network.egress)
        return network.vpc_id

    return run(program)


def own(recording: Recording) -> list[Registered]:
    return [
        resource for resource in recording if resource.type not in ("test:index:Probe", "ray-train-efa:infra:Network")
    ]


def named(recording: Recording, name: str, token: str) -> Registered:
    [found] = [resource for resource in recording.of_type(token) if resource.name == name]
    return found


def waits_for(recording: Recording, resource: Registered) -> set[str]:
    """All that comes before a resource, by type and name."""
    seen: set[str] = set()
    todo = list(resource.request.dependencies)
    known = {(r.type, r.name): r for r in recording}
    while todo:
        urn = todo.pop()
        token, name = urn.split("::")[2].rpartition("$")[2], urn.rpartition("::")[2]
        if f"{token} {name}" not in seen:
            seen.add(f"{token} {name}")
            todo.extend(known[token, name].request.dependencies)
    return seen


ALL_KINDS = [
    {"nat": nat, "endpoints": endpoints}
    for nat in ("one", "per-zone", "none")
    for endpoints in ([], ["s3"], ["ecr"], ["s3", "ecr"])
]


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_all_of_it_is_the_components_own(kind: dict[str, Any]) -> None:
    assert {resource.parent for resource in own(made_with(**kind))} == {"net"}


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_what_bills_waits_for_the_reservation_and_nothing_else_does(kind: dict[str, Any]) -> None:
    for resource in own(made_with(**kind)):
        bills = resource.type in (ADDRESS, NAT) or resource.inputs.get("vpcEndpointType") == "Interface"
        assert bills or resource.type in FREE or resource.inputs["vpcEndpointType"] == "Gateway", resource
        assert ("reservation" in resource.dependencies) is bills, f"{resource.type} {resource.name}"


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_control_plane_waits_for_its_subnets_alone(kind: dict[str, Any]) -> None:
    recording = made_with(**kind)
    before = waits_for(recording, named(recording, "control-plane", "test:index:Probe"))
    assert before == {f"{VPC} net-vpc", f"{SUBNET} net-private-{A}", f"{SUBNET} net-private-{B}"}


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_nodes_wait_for_every_way_out(kind: dict[str, Any]) -> None:
    recording = made_with(**kind)
    before = waits_for(recording, named(recording, "nodes", "test:index:Probe"))
    for resource in own(recording):
        if resource.type in (ASSOCIATION, ROUTE, NAT, ENDPOINT, INGRESS, INTERNET):
            assert f"{resource.type} {resource.name}" in before


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_no_subnet_gives_public_addresses(kind: dict[str, Any]) -> None:
    subnets = made_with(**kind).of_type(SUBNET)
    assert {subnet.inputs["mapPublicIpOnLaunch"] for subnet in subnets} == {False}


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_each_zone_has_a_private_subnet_marked_for_internal_load_balancers(kind: dict[str, Any]) -> None:
    private = [subnet for subnet in made_with(**kind).of_type(SUBNET) if "private" in subnet.name]
    assert {subnet.inputs["availabilityZone"]: subnet.inputs["cidrBlock"] for subnet in private} == {
        A: "10.20.0.0/19",
        B: "10.20.32.0/19",
        D: "10.20.96.0/19",
    }
    for subnet in private:
        zone = subnet.inputs["availabilityZone"]
        assert subnet.inputs["vpcId"] == "net-vpc-id"
        assert subnet.inputs["tags"] == {"Name": f"ray-dev-private-{zone}", "kubernetes.io/role/internal-elb": "1"}


def test_names_within_the_vpc_are_on() -> None:
    vpc = made_with().one(VPC)
    assert vpc.inputs["enableDnsHostnames"] is True
    assert vpc.inputs["enableDnsSupport"] is True
    assert vpc.inputs["tags"] == {"Name": "ray-dev"}


def test_one_nat_gateway_stands_in_the_gpu_zone_and_serves_all_zones() -> None:
    recording = made_with(nat="one")
    gateway = recording.one(NAT)
    assert gateway.inputs["subnetId"] == f"net-public-{D}-id"
    assert gateway.inputs["allocationId"] == f"{recording.one(ADDRESS).name}-id"
    assert private_routes(recording) == dict.fromkeys((A, B, D), f"net-nat-{D}-id")
    assert [subnet.name for subnet in recording.of_type(SUBNET) if "public" in subnet.name] == [f"net-public-{D}"]


def test_a_nat_gateway_per_zone_serves_its_own() -> None:
    recording = made_with(nat="per-zone")
    assert {gateway.inputs["subnetId"] for gateway in recording.of_type(NAT)} == {
        f"net-public-{zone}-id" for zone in (A, B, D)
    }
    assert len({gateway.inputs["allocationId"] for gateway in recording.of_type(NAT)}) == 3
    assert private_routes(recording) == {zone: f"net-nat-{zone}-id" for zone in (A, B, D)}


def private_routes(recording: Recording) -> dict[str, str]:
    """By the zone of the subnet that each route serves, the NAT gateway it leads to."""
    zones = {subnet.name: subnet.inputs["availabilityZone"] for subnet in recording.of_type(SUBNET)}
    tables = {a.inputs["routeTableId"]: a.inputs["subnetId"] for a in recording.of_type(ASSOCIATION)}
    return {
        zones[tables[route.inputs["routeTableId"]].removesuffix("-id")]: route.inputs["natGatewayId"]
        for route in recording.of_type(ROUTE)
        if "natGatewayId" in route.inputs
    }


@pytest.mark.parametrize("nat", ["one", "per-zone"])
def test_only_public_subnets_lead_to_the_internet(nat: str) -> None:
    recording = made_with(nat=nat)
    [route] = [route for route in recording.of_type(ROUTE) if "gatewayId" in route.inputs]
    assert route.inputs["gatewayId"] == "net-internet-id"
    led = {
        a.inputs["subnetId"]
        for a in recording.of_type(ASSOCIATION)
        if a.inputs["routeTableId"] == route.inputs["routeTableId"]
    }
    assert led == {f"{subnet.name}-id" for subnet in recording.of_type(SUBNET) if "public" in subnet.name}
    assert all("net-internet" in gateway.dependencies for gateway in recording.of_type(NAT))


def test_nothing_of_one_nat_gateway_changes_with_one_per_zone() -> None:
    """Names are identities: the same name and inputs are left as they are."""
    one, each = (
        {(r.type, r.name): r.inputs for r in own(made_with(nat=nat)) if r.type != ROUTE} for nat in ("one", "per-zone")
    )
    assert one.items() <= each.items()


def test_another_gpu_zone_moves_no_subnet_and_shares_no_address_with_the_old_gateway() -> None:
    before, after = (
        {(r.type, r.name): r.inputs for r in own(made_with(zones=zones))}
        for zones in (
            ZonePlan(gpu=D, control_plane=(A, B), all=(D, A, B)),
            ZonePlan(gpu=A, control_plane=(A, B), all=(A, B)),
        )
    )
    changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    assert changed == {(ROUTE, f"net-private-{A}"), (ROUTE, f"net-private-{B}"), (ENDPOINT, "net-s3")}
    assert {token for token, _ in after.keys() - before.keys()} == {SUBNET, ASSOCIATION, ADDRESS, NAT}


def test_without_nat_there_is_no_way_to_the_internet() -> None:
    recording = made_with(nat="none", endpoints=["s3", "ecr"])
    for token in (NAT, ADDRESS, INTERNET, ROUTE):
        assert not recording.of_type(token), token
    assert not [subnet for subnet in recording.of_type(SUBNET) if "public" in subnet.name]


@pytest.mark.parametrize("endpoints", [["ecr"], ["s3", "ecr"]])
def test_without_nat_nodes_reach_all_that_they_need_to_come_up(endpoints: list[str]) -> None:
    services = {e.inputs["serviceName"] for e in made_with(nat="none", endpoints=endpoints).of_type(ENDPOINT)}
    needed = ("s3", "ecr.api", "ecr.dkr", "ec2", "eks", "eks-auth", "sts")
    assert services == {f"com.amazonaws.us-west-2.{service}" for service in needed}


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [([], set()), (["s3"], {"s3"}), (["ecr"], {"ecr.api", "ecr.dkr"}), (["s3", "ecr"], {"s3", "ecr.api", "ecr.dkr"})],
)
def test_with_nat_there_are_the_endpoints_asked_for(endpoints: list[str], expected: set[str]) -> None:
    recording = made_with(endpoints=endpoints)
    assert {e.inputs["serviceName"].removeprefix("com.amazonaws.us-west-2.") for e in recording.of_type(ENDPOINT)} == (
        expected
    )
    assert bool(recording.of_type(GROUP)) is ("ecr" in endpoints)


def test_the_s3_endpoint_is_in_every_private_route_table_and_no_public_one() -> None:
    recording = made_with(endpoints=["s3"])
    assert recording.one(ENDPOINT).inputs["routeTableIds"] == [f"net-private-{zone}-id" for zone in (D, A, B)]


@pytest.mark.parametrize(("nat", "zones"), [("one", [D]), ("none", [D]), ("per-zone", [D, A, B])])
def test_interface_endpoints_stand_where_nat_gateways_would(nat: str, zones: list[str]) -> None:
    interfaces = [e for e in made_with(nat=nat, endpoints=["ecr"]).of_type(ENDPOINT) if "subnetIds" in e.inputs]
    assert interfaces
    for endpoint in interfaces:
        assert endpoint.inputs["subnetIds"] == [f"net-private-{zone}-id" for zone in zones]
        assert endpoint.inputs["privateDnsEnabled"] is True


def test_endpoints_are_reached_from_the_vpc_by_https_alone() -> None:
    recording = made_with(endpoints=["ecr"])
    rule = recording.one(INGRESS)
    assert (rule.inputs["cidrIpv4"], rule.inputs["fromPort"], rule.inputs["toPort"]) == ("10.20.0.0/16", 443, 443)
    assert rule.inputs["ipProtocol"] == "tcp"
    assert not {"ingress", "egress"} & recording.one(GROUP).inputs.keys()
    assert {tuple(e.inputs["securityGroupIds"]) for e in recording.of_type(ENDPOINT)} == {("net-endpoints-id",)}


def test_an_explicit_provider_reaches_every_child() -> None:
    def program() -> pulumi.Output[str]:
        provider = aws.Provider("aws", region="us-west-2")
        zones = ZonePlan(gpu=A, control_plane=(A, B), all=(A, B))
        args = NetworkArgs(
            name="ray", cidr="10.20.0.0/16", zones=zones, nat="one", endpoints=["s3", "ecr"], billed_after=[]
        )
        return Network("net", args, pulumi.ResourceOptions(providers=[provider])).vpc_id

    children = [resource for resource in run(program) if resource.parent == "net"]
    assert len(children) > 20
    assert all("::aws::" in resource.request.provider for resource in children)
