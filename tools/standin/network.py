"""VPCs and what is in them: subnets, gateways, routes, endpoints."""

from typing import Any

from tools.standin import network_rules as rules
from tools.standin import tokens
from tools.standin.account import Entry, new_id
from tools.standin.kinds import Call, Kind, Refers
from tools.standin.zones import zone_id_of

DEPENDENT = "DependencyViolation"
IN_VPC = Refers(path="vpcId", token=tokens.VPC, missing="InvalidVpcID.NotFound", blocks=DEPENDENT)


def in_subnets(path: str) -> Refers:
    return Refers(path=path, token=tokens.SUBNET, missing="InvalidSubnetID.NotFound", blocks=DEPENDENT)


def with_groups(path: str, *, blocks: str = DEPENDENT) -> Refers:
    return Refers(path=path, token=tokens.SECURITY_GROUP, missing="InvalidGroup.NotFound", blocks=blocks)


def add_interface(call: Call, owner: str, subnet: str, groups: list[str]) -> str:
    """A network interface that AWS makes for `owner` in a subnet, in those security groups."""
    interface = new_id("eni")
    inputs = {"subnetId": subnet, "securityGroups": groups}
    entry = Entry(token=tokens.INTERFACE, id=interface, region=call.region, inputs=inputs, outputs={"owner": owner})
    call.records.put(entry)
    return interface


def drop_interfaces(call: Call, owner: str, *, linger: bool = False) -> None:
    """Takes the owner's interfaces away: at once, or after the scenario's `linger`."""
    for interface in call.records.all(tokens.INTERFACE):
        if interface.outputs["owner"] == owner:
            if linger and call.scenario.linger:
                call.records.set(interface, until=call.moment.now + call.scenario.linger)
            else:
                call.records.remove(tokens.INTERFACE, interface.id)


def _vpc(call: Call) -> dict[str, Any]:
    return {
        "arn": call.arn("ec2", f"vpc/{call.id}"),
        "ownerId": call.account,
        "cidrBlock": call.inputs.get("cidrBlock"),
        "defaultNetworkAclId": new_id("acl"),
        "defaultRouteTableId": (table := new_id("rtb")),
        "mainRouteTableId": table,
        "defaultSecurityGroupId": new_id("sg"),
        "dhcpOptionsId": "dopt-0a1b2c3d",
    }


def _subnet(call: Call) -> dict[str, Any]:
    zone = call.inputs.get("availabilityZone") or rules.zone_of_subnet(call)
    return {
        "arn": call.arn("ec2", f"subnet/{call.id}"),
        "ownerId": call.account,
        "availabilityZone": zone,
        "availabilityZoneId": zone_id_of(call.region, zone),
        "privateDnsHostnameTypeOnLaunch": call.inputs.get("privateDnsHostnameTypeOnLaunch", "ip-name"),
    }


def _owned(service: str, what: str) -> Any:
    return lambda call: {"arn": call.arn(service, f"{what}/{call.id}"), "ownerId": call.account}


def _eip(call: Call) -> dict[str, Any]:
    number = int(call.records.add("addresses"))
    address = f"203.0.113.{number % 254 + 1}"
    return {
        "allocationId": call.id,
        "arn": call.arn("ec2", f"elastic-ip/{call.id}"),
        "publicIp": address,
        "publicDns": f"ec2-{address.replace('.', '-')}.compute.amazonaws.com",
        "domain": "vpc",
        "networkBorderGroup": call.region,
        "publicIpv4Pool": "amazon",
    }


def _nat(call: Call) -> dict[str, Any]:
    address = call.entry(tokens.EIP, "allocationId")
    return {
        "associationId": new_id("eipassoc"),
        "networkInterfaceId": add_interface(call, call.id, call.inputs["subnetId"], []),
        "privateIp": "10.0.0.10",
        "publicIp": address.outputs["publicIp"] if address else "",
        "vpcId": rules.vpc_of(call.records, call.inputs["subnetId"]),
    }


def _endpoint(call: Call) -> dict[str, Any]:
    subnets = call.inputs.get("subnetIds", [])
    groups = call.inputs.get("securityGroupIds", [])
    interface = call.inputs.get("vpcEndpointType") == "Interface"
    return {
        "arn": call.arn("ec2", f"vpc-endpoint/{call.id}"),
        "ownerId": call.account,
        "state": "available",
        "requesterManaged": False,
        "networkInterfaceIds": [add_interface(call, call.id, subnet, groups) for subnet in subnets],
        "dnsEntries": [{"dnsName": f"{call.id}.vpce.amazonaws.com", "hostedZoneId": "Z1HUB23UULQXV"}] * interface,
        "prefixListId": "" if interface else "pl-68a54001",
        "cidrBlocks": [] if interface else ["52.218.128.0/17"],
        "policy": call.inputs.get("policy", '{"Statement":[{"Action":"*","Effect":"Allow","Principal":"*"}]}'),
    }


def _route_id(call: Call) -> str:
    target = call.inputs.get("destinationCidrBlock") or call.inputs.get("destinationPrefixListId") or "v6"
    return f"r-{call.inputs['routeTableId']}-{target}"


KINDS = (
    Kind(
        token=tokens.VPC,
        service="EC2",
        new_id=lambda call: new_id("vpc"),
        outputs=_vpc,
        refuse=rules.vpc,
        defaults={"enableDnsSupport": True, "enableDnsHostnames": False, "instanceTenancy": "default"},
        fixed=("cidrBlock", "ipv4IpamPoolId", "ipv4NetmaskLength"),
    ),
    Kind(
        token=tokens.SUBNET,
        service="EC2",
        new_id=lambda call: new_id("subnet"),
        outputs=_subnet,
        refuse=rules.subnet,
        computed=("availabilityZone", "availabilityZoneId", "privateDnsHostnameTypeOnLaunch"),
        defaults={"mapPublicIpOnLaunch": False, "assignIpv6AddressOnCreation": False},
        fixed=("vpcId", "cidrBlock", "availabilityZone", "availabilityZoneId", "outpostArn", "ipv6Native"),
        refers=(IN_VPC,),
    ),
    Kind(
        token=tokens.INTERNET_GATEWAY,
        service="EC2",
        new_id=lambda call: new_id("igw"),
        outputs=_owned("ec2", "internet-gateway"),
        refuse=rules.internet_gateway,
        keep=rules.keep_internet_gateway,
        refers=(IN_VPC,),
    ),
    Kind(
        token=tokens.ROUTE_TABLE,
        service="EC2",
        new_id=lambda call: new_id("rtb"),
        outputs=_owned("ec2", "route-table"),
        defaults={"routes": [], "propagatingVgws": []},
        fixed=("vpcId",),
        refers=(IN_VPC,),
    ),
    Kind(
        token=tokens.ROUTE,
        service="EC2",
        new_id=_route_id,
        outputs=lambda call: {"origin": "CreateRoute", "state": "active"},
        refuse=rules.route,
        fixed=("routeTableId", "destinationCidrBlock", "destinationIpv6CidrBlock", "destinationPrefixListId"),
        exists="RouteAlreadyExists",
        refers=(
            Refers(path="routeTableId", token=tokens.ROUTE_TABLE, missing="InvalidRouteTableID.NotFound"),
            Refers(path="gatewayId", token=tokens.INTERNET_GATEWAY, missing="InvalidGatewayID.NotFound"),
            Refers(path="natGatewayId", token=tokens.NAT_GATEWAY, missing="InvalidNatGatewayID.NotFound"),
        ),
    ),
    Kind(
        token=tokens.ROUTE_TABLE_ASSOCIATION,
        service="EC2",
        new_id=lambda call: new_id("rtbassoc"),
        refuse=rules.association,
        fixed=("subnetId", "gatewayId"),
        refers=(
            Refers(
                path="routeTableId",
                token=tokens.ROUTE_TABLE,
                missing="InvalidRouteTableID.NotFound",
                blocks=DEPENDENT,
            ),
            Refers(path="subnetId", token=tokens.SUBNET, missing="InvalidSubnetID.NotFound"),
        ),
    ),
    Kind(
        token=tokens.EIP,
        service="EC2",
        new_id=lambda call: new_id("eipalloc"),
        outputs=_eip,
        computed=("domain", "networkBorderGroup", "publicIpv4Pool"),
        fixed=("domain", "networkBorderGroup", "publicIpv4Pool", "address"),
    ),
    Kind(
        token=tokens.NAT_GATEWAY,
        service="EC2",
        new_id=lambda call: new_id("nat"),
        outputs=_nat,
        refuse=rules.nat_gateway,
        deleted=lambda call: drop_interfaces(call, call.id),
        computed=("privateIp", "vpcId"),
        defaults={"connectivityType": "public"},
        fixed=("allocationId", "subnetId", "connectivityType", "privateIp"),
        refers=(
            Refers(
                path="allocationId",
                token=tokens.EIP,
                missing="InvalidAllocationID.NotFound",
                blocks="InvalidIPAddress.InUse",
            ),
            in_subnets("subnetId"),
        ),
    ),
    Kind(
        token=tokens.VPC_ENDPOINT,
        service="EC2",
        new_id=lambda call: new_id("vpce"),
        outputs=_endpoint,
        refuse=rules.endpoint,
        deleted=lambda call: drop_interfaces(call, call.id),
        computed=("policy",),
        defaults={"vpcEndpointType": "Gateway", "privateDnsEnabled": False},
        fixed=("vpcId", "serviceName", "vpcEndpointType"),
        refers=(
            IN_VPC,
            in_subnets("subnetIds[]"),
            with_groups("securityGroupIds[]"),
            Refers(path="routeTableIds[]", token=tokens.ROUTE_TABLE, missing="InvalidRouteTableID.NotFound"),
        ),
    ),
    Kind(
        token=tokens.ENDPOINT_ROUTES,
        service="EC2",
        new_id=lambda call: f"a-{call.inputs['vpcEndpointId']}{call.inputs['routeTableId']}",
        fixed=("vpcEndpointId", "routeTableId"),
        exists="",
        refers=(
            Refers(path="vpcEndpointId", token=tokens.VPC_ENDPOINT, missing="InvalidVpcEndpointId.NotFound"),
            Refers(path="routeTableId", token=tokens.ROUTE_TABLE, missing="InvalidRouteTableID.NotFound"),
        ),
    ),
)
