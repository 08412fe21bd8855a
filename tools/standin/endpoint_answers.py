"""What AWS's own API says of a stand-in account, beside Pulumi: who asks, what is there by tag and by name."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tools.standin import tokens
from tools.standin.account import Entry, Records
from tools.standin.aws_wire import Asked
from tools.standin.errors import AwsError
from tools.standin.scenario import Scenario

Item = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class There:
    """One question's account."""

    records: Records
    scenario: Scenario
    asked: Asked

    def entries(self, token: str) -> list[Entry]:
        return self.records.all(token, self.asked.region)

    def described(self, token: str, describe: Callable[[Entry], Item]) -> list[Item]:
        """What fits the question's filters."""
        filters = self.asked.parameters.get("Filters") or self.asked.parameters.get("Filter") or []
        items = [describe(entry) | {"Tags": tags_of(entry)} for entry in self.entries(token)]
        return [item for item in items if _fits(item, filters)]


def tags_of(entry: Entry) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in entry.outputs.get("tagsAll", {}).items()]


def _identity(at: There) -> Item:
    return {"UserId": "AIDASTANDIN", "Account": at.scenario.account, "Arn": at.scenario.caller}


def _instances(at: There) -> Item:
    """The nodes of the node groups: they have the tags of their launch template, which are the group's."""
    found: list[Item] = []
    filters = at.asked.parameters.get("Filters", [])
    for group in at.entries(tokens.NODE_GROUP):
        running = group.hidden.get("running") or {}
        for number in range(int(running.get("count", 0))):
            id = f"i-0{hashlib.sha256(f'{group.id} {number}'.encode()).hexdigest()[:16]}"
            state = {"Code": 16, "Name": "running"}
            found.append({"InstanceId": id, "InstanceType": running["type"], "State": state, "Tags": tags_of(group)})
    kept = [one for one in found if _fits(one, filters)]
    return {"Reservations": [{"ReservationId": "r-0", "Instances": kept}] if kept else []}


def _reservations(at: There) -> Item:
    def describe(entry: Entry) -> Item:
        inputs = entry.inputs
        end = inputs.get("endDate")
        return {
            "CapacityReservationId": entry.id,
            "State": entry.hidden.get("state", "active"),
            "InstanceType": inputs["instanceType"],
            "InstancePlatform": inputs["instancePlatform"],
            "AvailabilityZone": inputs["availabilityZone"],
            "TotalInstanceCount": int(inputs["instanceCount"]),
            "AvailableInstanceCount": int(inputs["instanceCount"]),
            "EndDateType": inputs.get("endDateType", "unlimited"),
            **({"EndDate": datetime.fromisoformat(end).astimezone(UTC)} if end else {}),
        }

    found = at.described(tokens.CAPACITY_RESERVATION, describe)
    ids = at.asked.parameters.get("CapacityReservationIds", [])
    if missing := set(ids) - {one["CapacityReservationId"] for one in found}:
        raise AwsError("InvalidCapacityReservationId.NotFound", f"The reservation {missing.pop()} does not exist.")
    return {"CapacityReservations": [one for one in found if not ids or one["CapacityReservationId"] in ids]}


def _interfaces(at: There) -> Item:
    """What AWS itself made has no tags: only its description says whose it is."""
    found: list[Item] = []
    for entry in at.entries(tokens.INTERFACE):
        waits = "until" in entry.outputs
        subnet = at.records.get(tokens.SUBNET, str(entry.inputs.get("subnetId", "")))
        found.append(
            {
                "NetworkInterfaceId": entry.id,
                "Status": "available" if waits else "in-use",
                "Description": f"Amazon EKS {entry.outputs['owner']}",
                "VpcId": subnet.outputs["vpcId"] if subnet else "",
                "Tags": [],
            }
        )
    return {"NetworkInterfaces": [one for one in found if _fits(one, at.asked.parameters.get("Filters", []))]}


def _cluster(at: There) -> Item:
    one = at.records.get(tokens.CLUSTER, str(at.asked.parameters["name"]))
    if one is None or one.region != at.asked.region:
        raise AwsError("ResourceNotFoundException", f"No cluster found for name: {at.asked.parameters['name']}.")
    return {"cluster": {"name": one.id, "status": one.outputs["status"], "tags": one.outputs.get("tagsAll", {})}}


def _groups_of(at: There) -> Iterator[Entry]:
    cluster = at.asked.parameters["clusterName"]
    return (one for one in at.entries(tokens.NODE_GROUP) if one.inputs["clusterName"] == cluster)


def _node_group(at: There) -> Item:
    wanted = at.asked.parameters["nodegroupName"]
    for one in _groups_of(at):
        if one.inputs["nodeGroupName"] == wanted:
            scaling = {name: int(value) for name, value in one.inputs["scalingConfig"].items()}
            group = {"nodegroupName": wanted, "clusterName": one.inputs["clusterName"], "scalingConfig": scaling}
            return {"nodegroup": {**group, "status": one.outputs["status"], "tags": one.outputs.get("tagsAll", {})}}
    raise AwsError("ResourceNotFoundException", f"No node group found for name: {wanted}.")


def _log_groups(at: There) -> Item:
    prefix = at.asked.parameters.get("logGroupNamePrefix", "")
    named = [entry.id for entry in at.entries(tokens.LOG_GROUP) if entry.id.startswith(prefix)]
    arn = f"arn:aws:logs:{at.asked.region}:{at.scenario.account}:log-group:"
    return {"logGroups": [{"logGroupName": name, "storedBytes": 0, "arn": f"{arn}{name}:*"} for name in named]}


def _log_tags(at: There) -> Item:
    one = at.records.get(tokens.LOG_GROUP, str(at.asked.parameters["resourceArn"]).partition(":log-group:")[2])
    if one is None:
        raise AwsError("ResourceNotFoundException", "The specified log group does not exist.")
    return {"tags": one.outputs.get("tagsAll", {})}


def _buckets(at: There) -> Item:
    prefix = at.asked.parameters.get("Prefix", "")
    named = [entry.id for entry in at.entries(tokens.BUCKET) if entry.id.startswith(prefix)]
    return {"Buckets": [{"Name": name} for name in named]}


def _bucket_tags(at: There) -> Item:
    one = at.records.get(tokens.BUCKET, str(at.asked.parameters["Bucket"]))
    if one is None:
        raise AwsError("NoSuchBucket", "The specified bucket does not exist")
    return {"TagSet": tags_of(one)}


def _file_systems(at: There) -> Item:
    def describe(entry: Entry) -> Item:
        capacity = int(entry.inputs.get("storageCapacity", 0))
        return {"FileSystemId": entry.id, "Lifecycle": "AVAILABLE", "StorageCapacity": capacity}

    return {"FileSystems": at.described(tokens.LUSTRE, describe)}


def _key_tags(at: There) -> Item:
    one = at.records.get(tokens.KEY, str(at.asked.parameters["KeyId"]))
    tags = one.outputs.get("tagsAll", {}) if one else {}
    return {"Tags": [{"TagKey": key, "TagValue": value} for key, value in tags.items()], "Truncated": False}


def _ec2(token: str, result: str, describe: Callable[[Entry], Item]) -> Callable[[There], Item]:
    return lambda at: {result: at.described(token, describe)}


ANSWERS: Mapping[tuple[str, str], Callable[[There], Item]] = {
    ("sts", "GetCallerIdentity"): _identity,
    ("ec2", "DescribeInstances"): _instances,
    ("ec2", "DescribeCapacityReservations"): _reservations,
    ("ec2", "DescribeNetworkInterfaces"): _interfaces,
    ("ec2", "DescribeVpcs"): _ec2(tokens.VPC, "Vpcs", lambda one: {"VpcId": one.id}),
    ("ec2", "DescribeAddresses"): _ec2(tokens.EIP, "Addresses", lambda one: {"AllocationId": one.id}),
    ("ec2", "DescribeNatGateways"): _ec2(
        tokens.NAT_GATEWAY, "NatGateways", lambda one: {"NatGatewayId": one.id, "State": "available"}
    ),
    ("ec2", "DescribeVpcEndpoints"): _ec2(
        tokens.VPC_ENDPOINT,
        "VpcEndpoints",
        lambda one: {
            "VpcEndpointId": one.id,
            "State": "available",
            "VpcEndpointType": one.inputs.get("vpcEndpointType", "Gateway"),
            "ServiceName": one.inputs["serviceName"],
        },
    ),
    ("ec2", "DescribePlacementGroups"): _ec2(
        tokens.PLACEMENT_GROUP, "PlacementGroups", lambda one: {"GroupName": one.id, "State": "available"}
    ),
    # The nodes' disks go with them.
    ("ec2", "DescribeVolumes"): lambda _: {"Volumes": []},
    ("eks", "DescribeCluster"): _cluster,
    ("eks", "ListNodegroups"): lambda at: {"nodegroups": [one.inputs["nodeGroupName"] for one in _groups_of(at)]},
    ("eks", "DescribeNodegroup"): _node_group,
    ("elbv2", "DescribeLoadBalancers"): lambda _: {"LoadBalancers": []},
    ("elb", "DescribeLoadBalancers"): lambda _: {"LoadBalancerDescriptions": []},
    ("logs", "DescribeLogGroups"): _log_groups,
    ("logs", "ListTagsForResource"): _log_tags,
    ("s3", "ListBuckets"): _buckets,
    ("s3", "GetBucketTagging"): _bucket_tags,
    ("fsx", "DescribeFileSystems"): _file_systems,
    ("kms", "ListKeys"): lambda at: {"Keys": [{"KeyId": one.id} for one in at.entries(tokens.KEY)], "Truncated": False},
    ("kms", "ListResourceTags"): _key_tags,
    ("kms", "DescribeKey"): lambda at: {"KeyMetadata": {"KeyId": at.asked.parameters["KeyId"], "KeyState": "Enabled"}},
}

_FACTS = {
    "instance-state-name": lambda item: item["State"]["Name"],
    "state": lambda item: item["State"],
    "vpc-id": lambda item: item["VpcId"],
    "description": lambda item: item["Description"],
}


def _fits(item: Mapping[str, Any], filters: list[Mapping[str, Any]]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in item.get("Tags", [])}
    for one in filters:
        name, values = one["Name"], one["Values"]
        if name == "tag-key":
            fits = any(key in values for key in tags)
        elif name.startswith("tag:"):
            fits = tags.get(name.removeprefix("tag:")) in values
        elif name in _FACTS:
            fits = _FACTS[name](item) in values
        else:
            raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
        if not fits:
            return False
    return True
