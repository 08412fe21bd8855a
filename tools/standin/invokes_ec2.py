"""Questions to EC2, STS and Service Quotas."""

from collections.abc import Callable, Mapping
from typing import Any

from tools.standin import capacity, tokens
from tools.standin.account import Entry
from tools.standin.asking import Asking, described, matching, only_one, tag_facts, with_tags
from tools.standin.errors import AwsError
from tools.standin.zones import zones

# A zone that accounts do not have until they ask for it; EFA and EKS control planes are not there.
_LOCAL = {"us-west-2": ("us-west-2-lax-1a", "usw2-lax1-az1"), "us-east-1": ("us-east-1-bos-1a", "use1-bos1-az1")}


def _caller(asking: Asking) -> dict[str, Any]:
    account = asking.scenario.account
    return {"id": account, "accountId": account, "arn": asking.scenario.caller, "userId": "AIDASTANDIN"}


def _partition(asking: Asking) -> dict[str, Any]:
    return {"id": "aws", "partition": "aws", "dnsSuffix": "amazonaws.com", "reverseDnsPrefix": "com.amazonaws"}


def _region(asking: Asking) -> dict[str, Any]:
    name = asking.arguments.get("name") or asking.region
    return {"id": name, "name": name, "region": name, "endpoint": f"ec2.{name}.amazonaws.com", "description": name}


def _zones(asking: Asking) -> dict[str, Any]:
    arguments = asking.arguments
    there = [
        {"zone-name": name, "zone-id": id, "zone-type": "availability-zone", "opt-in-status": "opt-in-not-required"}
        for name, id in zones(asking.region).items()
    ]
    if arguments.get("allAvailabilityZones") and asking.region in _LOCAL:
        name, id = _LOCAL[asking.region]
        there.append({"zone-name": name, "zone-id": id, "zone-type": "local-zone", "opt-in-status": "not-opted-in"})
    there = [
        {**zone, "state": "available", "region-name": asking.region, "group-name": asking.region}
        for zone in there
        if zone["zone-name"] not in arguments.get("excludeNames", [])
        and zone["zone-id"] not in arguments.get("excludeZoneIds", [])
    ]
    state = {"state": [arguments["state"]]} if "state" in arguments else {}
    found = matching(there, {**asking.filters(), **state}, lambda zone: zone)
    found.sort(key=lambda zone: zone["zone-name"])
    return {
        "names": [zone["zone-name"] for zone in found],
        "zoneIds": [zone["zone-id"] for zone in found],
        "groupNames": sorted({zone["group-name"] for zone in found}),
    }


def _offerings(asking: Asking) -> dict[str, Any]:
    kind = asking.arguments.get("locationType", "region")
    if kind not in ("region", "availability-zone", "availability-zone-id"):
        raise AwsError("InvalidParameterValue", f"location type '{kind}' is not one that the stand-in answers for")
    pairs = []
    for name in capacity.type_names():
        there = capacity.offered(asking.scenario, asking.region, name)
        places = {"region": [asking.region] * bool(there), "availability-zone": there}
        ids = [zones(asking.region)[zone] for zone in there]
        pairs += [(name, place) for place in {**places, "availability-zone-id": ids}[kind]]
    found = matching(pairs, asking.filters(), lambda pair: {"instance-type": pair[0], "location": pair[1]})
    return {
        "instanceTypes": [name for name, _ in found],
        "locations": [place for _, place in found],
        "locationTypes": [kind] * len(found),
    }


def _type(asking: Asking) -> dict[str, Any]:
    name = asking.arguments["instanceType"]
    if not capacity.offered(asking.scenario, asking.region, name):
        # DescribeInstanceTypes knows a region's own types.
        raise capacity.unknown_type(name)
    facts = capacity.facts(name)
    gpu = {"count": facts["gpus"], "manufacturer": "NVIDIA", "memorySize": 0, "name": facts["gpu"]}
    cards = max(1, facts["efa"])
    return {
        "id": name,
        "defaultVcpus": facts["vcpus"],
        "defaultCores": facts["vcpus"] // 2,
        "defaultThreadsPerCore": 2,
        "memorySize": facts["memory"] * 1024,
        "efaSupported": facts["efa"] > 0,
        "efaMaximumInterfaces": facts["efa"],
        "gpuses": [gpu] if facts["gpus"] else [],
        "maximumNetworkCards": cards,
        "networkCards": [{"index": index, "maximumInterfaces": 8, "performance": ""} for index in range(cards)],
        "currentGeneration": True,
        "ebsOptimizedSupport": "default",
        "enaSupport": "required",
        "supportedArchitectures": ["x86_64"],
        "supportedPlacementStrategies": ["cluster", "partition", "spread"],
        "supportedUsagesClasses": ["on-demand", "spot"],
        "bareMetal": False,
    }


def _types(asking: Asking) -> dict[str, Any]:
    names = [name for name in capacity.type_names() if capacity.offered(asking.scenario, asking.region, name)]
    return {"instanceTypes": matching(names, asking.filters(), lambda name: {"instance-type": name})}


def _vpc_facts(entry: Entry) -> dict[str, Any]:
    facts = {"vpc-id": entry.id, "cidr": entry.outputs["cidrBlock"], "is-default": False, "state": "available"}
    return {**facts, **tag_facts(entry)}


def _vpc(asking: Asking) -> dict[str, Any]:
    arguments = asking.arguments
    filters = asking.filters()
    filters |= {"vpc-id": [arguments["id"]]} if "id" in arguments else {}
    filters |= {"cidr": [arguments["cidrBlock"]]} if "cidrBlock" in arguments else {}
    filters |= {"is-default": ["true"]} if arguments.get("default") else {}
    there = with_tags(asking.records.all(tokens.VPC, asking.region), arguments.get("tags", {}))
    found = only_one(matching(there, filters, _vpc_facts), "EC2 VPC")
    defaults = ("defaultNetworkAclId", "defaultRouteTableId", "defaultSecurityGroupId")
    return {**described(found, *defaults), "state": "available", "default": False}


def _subnet_facts(entry: Entry) -> dict[str, Any]:
    return {
        "subnet-id": entry.id,
        "vpc-id": entry.inputs["vpcId"],
        "availability-zone": entry.outputs["availabilityZone"],
        "availability-zone-id": entry.outputs["availabilityZoneId"],
        "cidr-block": entry.outputs["cidrBlock"],
        "default-for-az": False,
        "map-public-ip-on-launch": entry.outputs["mapPublicIpOnLaunch"],
        "state": "available",
        **tag_facts(entry),
    }


def _found_subnets(asking: Asking) -> list[Entry]:
    arguments, filters = asking.arguments, asking.filters()
    for name, filter_name in (
        ("id", "subnet-id"),
        ("vpcId", "vpc-id"),
        ("availabilityZone", "availability-zone"),
        ("availabilityZoneId", "availability-zone-id"),
        ("cidrBlock", "cidr-block"),
    ):
        filters |= {filter_name: [arguments[name]]} if name in arguments else {}
    there = with_tags(asking.records.all(tokens.SUBNET, asking.region), arguments.get("tags", {}))
    found: list[Entry] = matching(there, filters, _subnet_facts)
    return found


def _subnet(asking: Asking) -> dict[str, Any]:
    found = only_one(_found_subnets(asking), "EC2 Subnet")
    size = 2 ** (32 - int(str(found.outputs["cidrBlock"]).partition("/")[2]))
    # EC2 keeps five addresses of each subnet to itself.
    return {**described(found), "state": "available", "defaultForAz": False, "availableIpAddressCount": size - 5}


def _subnets(asking: Asking) -> dict[str, Any]:
    return {"ids": [entry.id for entry in _found_subnets(asking)], "tags": asking.arguments.get("tags", {})}


def _route_tables(asking: Asking) -> dict[str, Any]:
    arguments, filters = asking.arguments, asking.filters()
    filters |= {"vpc-id": [arguments["vpcId"]]} if "vpcId" in arguments else {}
    associations = asking.records.all(tokens.ROUTE_TABLE_ASSOCIATION, asking.region)
    wanted = filters.pop("association.subnet-id", None)
    there = with_tags(asking.records.all(tokens.ROUTE_TABLE, asking.region), arguments.get("tags", {}))
    if wanted is not None:
        tables = {item.inputs["routeTableId"] for item in associations if item.inputs.get("subnetId") in wanted}
        there = [entry for entry in there if entry.id in tables]
    found = matching(
        there,
        filters,
        lambda entry: {"route-table-id": entry.id, "vpc-id": entry.inputs["vpcId"], **tag_facts(entry)},
    )
    return {"ids": [entry.id for entry in found], "tags": arguments.get("tags", {})}


def _security_group(asking: Asking) -> dict[str, Any]:
    arguments, filters = asking.arguments, asking.filters()
    for name, filter_name in (("id", "group-id"), ("name", "group-name"), ("vpcId", "vpc-id")):
        filters |= {filter_name: [arguments[name]]} if name in arguments else {}
    found = only_one(
        matching(
            asking.records.all(tokens.SECURITY_GROUP, asking.region),
            filters,
            lambda entry: {
                "group-id": entry.id,
                "group-name": entry.inputs["name"],
                "vpc-id": entry.inputs.get("vpcId", ""),
                **tag_facts(entry),
            },
        ),
        "EC2 Security Group",
    )
    return {**found.inputs, "id": found.id, "arn": found.outputs["arn"], "tags": found.outputs.get("tagsAll", {})}


def _quota(asking: Asking) -> dict[str, Any]:
    code = asking.arguments.get("quotaCode", "")
    limits = dict(capacity.quota_of(asking.scenario, family) for family in ("g", "p", "m"))
    limits |= asking.scenario.quotas
    if asking.arguments.get("serviceCode") != "ec2" or code not in limits:
        raise AwsError(
            "NoSuchResourceException", f"The quota {code} of {asking.arguments.get('serviceCode')} is unknown"
        )
    arn = asking.arn("servicequotas", f"ec2/{code}")
    extra = {"adjustable": True, "globalQuota": False, "quotaCode": code, "serviceCode": "ec2", "usageMetrics": []}
    return {"id": arn, "arn": arn, "value": limits[code], "defaultValue": 0, **extra}


ANSWERS: Mapping[str, Callable[[Asking], dict[str, Any]]] = {
    "aws:index/getCallerIdentity:getCallerIdentity": _caller,
    "aws:index/getPartition:getPartition": _partition,
    "aws:index/getRegion:getRegion": _region,
    "aws:index/getAvailabilityZones:getAvailabilityZones": _zones,
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": _offerings,
    "aws:ec2/getInstanceType:getInstanceType": _type,
    "aws:ec2/getInstanceTypes:getInstanceTypes": _types,
    "aws:ec2/getVpc:getVpc": _vpc,
    "aws:ec2/getSubnet:getSubnet": _subnet,
    "aws:ec2/getSubnets:getSubnets": _subnets,
    "aws:ec2/getRouteTables:getRouteTables": _route_tables,
    "aws:ec2/getSecurityGroup:getSecurityGroup": _security_group,
    "aws:servicequotas/getServiceQuota:getServiceQuota": _quota,
}
