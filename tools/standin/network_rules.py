"""What EC2 refuses of networks."""

import ipaddress

from tools.standin import tokens
from tools.standin.account import Entry, Records
from tools.standin.errors import AwsError
from tools.standin.kinds import Call
from tools.standin.wire import pick
from tools.standin.zones import zones

_VPC_PREFIXES = range(16, 29)
_ANYWHERE = "0.0.0.0/0"


def vpc_of(records: Records, subnet: str) -> str:
    entry = records.get(tokens.SUBNET, subnet)
    return str(entry.inputs["vpcId"]) if entry else ""


def zone_of_subnet(call: Call) -> str:
    """The zone by its id, or the first one, which EC2 is free to choose."""
    names = {id: name for name, id in zones(call.region).items()}
    return names.get(call.inputs.get("availabilityZoneId", ""), next(iter(zones(call.region))))


def gateways_of(records: Records, vpc: str) -> list[Entry]:
    return [entry for entry in records.all(tokens.INTERNET_GATEWAY) if entry.inputs.get("vpcId") == vpc]


def _network(call: Call, allowed: range, code: str) -> ipaddress.IPv4Network:
    text = call.inputs.get("cidrBlock", "")
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError:
        raise AwsError("InvalidParameterValue", f"Value ({text}) for parameter cidrBlock is invalid.") from None
    if network.prefixlen not in allowed:
        raise AwsError(code, f"The CIDR '{text}' is invalid.")
    return network


def vpc(call: Call) -> None:
    _network(call, _VPC_PREFIXES, "InvalidVpc.Range")


def subnet(call: Call) -> None:
    network = _network(call, _VPC_PREFIXES, "InvalidSubnet.Range")
    vpc = call.entry(tokens.VPC, "vpcId")
    if vpc and not network.subnet_of(ipaddress.IPv4Network(vpc.inputs["cidrBlock"])):
        raise AwsError("InvalidSubnet.Range", f"The CIDR '{network}' is invalid.")
    for other in call.records.all(tokens.SUBNET):
        if (
            other.id != call.id
            and other.inputs["vpcId"] == call.inputs["vpcId"]
            and network.overlaps(ipaddress.IPv4Network(other.inputs["cidrBlock"]))
        ):
            raise AwsError("InvalidSubnet.Conflict", f"The CIDR '{network}' conflicts with another subnet")
    zone, zone_id = call.inputs.get("availabilityZone"), call.inputs.get("availabilityZoneId")
    there = zones(call.region)
    for value, known in ((zone, there), (zone_id, there.values())):
        if value and value not in known:
            message = (
                f"Value ({value}) for parameter availabilityZone is invalid. Subnets can currently only be created"
            )
            message += f" in the following availability zones: {', '.join(there)}."
            raise AwsError("InvalidParameterValue", message)


def internet_gateway(call: Call) -> None:
    vpc = call.inputs.get("vpcId", "")
    if vpc and any(entry.id != call.id for entry in gateways_of(call.records, vpc)):
        raise AwsError("Resource.AlreadyAssociated", f"resource {vpc} is already associated with an internet gateway")


def keep_internet_gateway(call: Call) -> None:
    vpc = call.old.inputs.get("vpcId", "") if call.old else ""
    for nat in call.records.all(tokens.NAT_GATEWAY):
        if nat.outputs["vpcId"] == vpc:
            message = (
                f"Network {vpc} has some mapped public address(es). Please unmap those before detaching the gateway."
            )
            raise AwsError("DependencyViolation", message)


def route(call: Call) -> None:
    targets = [name for name in call.inputs if name.endswith("Id") and name not in ("routeTableId",)]
    targets = [name for name in targets if name != "destinationPrefixListId"]
    if len(targets) != 1:
        raise AwsError("InvalidParameterCombination", f"a route has one target, and this one has {targets or 'none'}")
    table = call.entry(tokens.ROUTE_TABLE, "routeTableId")
    gateway = call.entry(tokens.INTERNET_GATEWAY, "gatewayId")
    if table and gateway and gateway.inputs.get("vpcId") != table.inputs["vpcId"]:
        message = f"route table {table.id} and network gateway {gateway.id} belong to different networks"
        raise AwsError("InvalidParameterValue", message)


def association(call: Call) -> None:
    for other in call.records.all(tokens.ROUTE_TABLE_ASSOCIATION):
        if other.id != call.id and other.inputs.get("subnetId") == call.inputs.get("subnetId"):
            message = f"The specified association for route table {other.inputs['routeTableId']} conflicts"
            raise AwsError("Resource.AlreadyAssociated", message)


def nat_gateway(call: Call) -> None:
    if call.old:
        return
    if call.inputs.get("connectivityType", "public") == "public" and "allocationId" not in call.inputs:
        raise AwsError("MissingParameter", "The request must include the allocationId parameter.")
    for other in call.records.all(tokens.NAT_GATEWAY):
        if other.inputs.get("allocationId") == call.inputs.get("allocationId"):
            message = f"elastic IP address {call.inputs['allocationId']} is already associated"
            raise AwsError("Resource.AlreadyAssociated", message)
    vpc = vpc_of(call.records, call.inputs["subnetId"])
    if not gateways_of(call.records, vpc):
        message = f"Network {vpc} has no Internet gateway attached"
        raise AwsError("Gateway.NotAttached", message, slow=30, partial="failed")


def endpoint(call: Call) -> None:
    service = call.inputs.get("serviceName", "")
    if not service.startswith(f"com.amazonaws.{call.region}."):
        raise AwsError("InvalidServiceName", f"The Vpc Endpoint Service '{service}' does not exist")
    vpc = call.entry(tokens.VPC, "vpcId")
    if call.inputs.get("privateDnsEnabled") and vpc:
        dns = vpc.inputs.get("enableDnsSupport", True) and vpc.inputs.get("enableDnsHostnames", False)
        if not dns:
            message = (
                "Enabling private DNS requires both enableDnsSupport and enableDnsHostnames VPC attributes set to true"
            )
            raise AwsError("InvalidParameter", f"{message} for {vpc.id}")
    subnets = [call.records.get(tokens.SUBNET, id) for id in call.inputs.get("subnetIds", [])]
    names = [entry.outputs["availabilityZone"] for entry in subnets if entry]
    if len(set(names)) < len(names):
        raise AwsError("DuplicateSubnetsInSameZone", "Found another VPC endpoint subnet in the availability zone")


def reaches_images(records: Records, subnet: str) -> bool:
    """Whether a node in that subnet can pull images: a default route that leads out, or endpoints for registries."""
    tables = [
        entry.inputs["routeTableId"]
        for entry in records.all(tokens.ROUTE_TABLE_ASSOCIATION)
        if entry.inputs.get("subnetId") == subnet
    ]
    routes = [entry.inputs for entry in records.all(tokens.ROUTE) if entry.inputs["routeTableId"] in tables]
    for table in records.all(tokens.ROUTE_TABLE):
        if table.id in tables:
            routes += [
                {**item, "destinationCidrBlock": item.get("cidrBlock")} for item in table.inputs.get("routes", [])
            ]
    if any(item.get("destinationCidrBlock") == _ANYWHERE for item in routes):
        return True
    vpc = vpc_of(records, subnet)
    services = {
        entry.inputs["serviceName"].partition(".")[2].partition(".")[2].partition(".")[2]
        for entry in records.all(tokens.VPC_ENDPOINT)
        if entry.inputs["vpcId"] == vpc
        and (entry.outputs["networkInterfaceIds"] or pick(entry.inputs, "routeTableIds[]"))
    }
    return {"ecr.api", "ecr.dkr", "s3"} <= services
