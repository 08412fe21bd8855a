"""What AWS's own API says of a stand-in account to whoever watches a launch, or looks for what was left half-way."""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from capacity.pending import TAGGED
from tools.standin import tokens
from tools.standin.account import Entry
from tools.standin.endpoint_answers import ANSWERS as PLAIN
from tools.standin.endpoint_answers import Item, There
from tools.standin.endpoint_capacity import filtered
from tools.standin.errors import AwsError

# Auto Scaling writes a failed launch down some seconds after it tried, and tries again a minute or so later.
FIRST_FAILURE, NEXT_TRY = 15.0, 60.0


def _now(at: There) -> float:
    """The account's clock, in the transaction of the question."""
    if not at.scenario.scale:
        return at.records.number("clock")
    born = at.records.number("born")
    return (time.time() - born) / at.scenario.scale if born else 0.0


def _node_group(at: There) -> Item:
    """With why it has no nodes, which EKS tells only in the end."""
    plain = PLAIN["eks", "DescribeNodegroup"](at)["nodegroup"]
    entry = next(one for one in at.entries(tokens.NODE_GROUP) if one.id == _group_id(at))
    refused, issues = entry.hidden.get("refused"), []
    if refused and _now(at) < refused["until"]:
        plain = {**plain, "status": "CREATING"}
    elif refused:
        issues = [{"code": refused["code"], "message": refused["message"], "resourceIds": []}]
    told = {
        "nodegroupArn": entry.outputs["arn"],
        "health": {"issues": issues},
        "resources": {"autoScalingGroups": [{"name": _scaling_group(entry)}]},
    }
    return {"nodegroup": {**plain, **told}}


def _group_id(at: There) -> str:
    return f"{at.asked.parameters['clusterName']}:{at.asked.parameters['nodegroupName']}"


def _activities(at: There) -> Item:
    """Newest first, as Auto Scaling lists them."""
    name = at.asked.parameters["AutoScalingGroupName"]
    entry = next((one for one in at.entries(tokens.NODE_GROUP) if _scaling_group(one) == name), None)
    return {"Activities": list(_failures(entry, _now(at)))[::-1] if entry else []}


def _failures(entry: Entry, now: float) -> Iterator[Item]:
    refused = entry.hidden.get("refused")
    if refused is None:
        return
    born = datetime.now(UTC) - timedelta(seconds=now)
    at, number = refused["from"] + FIRST_FAILURE, 0
    while at <= min(now, refused["until"]):
        yield {
            "ActivityId": f"{entry.outputs['arn'].rpartition('/')[2]}-{number}",
            "AutoScalingGroupName": _scaling_group(entry),
            "Description": f"Launching a new EC2 instance.  Status Reason: {refused['message']}",
            "Cause": "an instance was started in response to a difference between desired and actual capacity",
            "StartTime": born + timedelta(seconds=at),
            "EndTime": born + timedelta(seconds=at),
            "StatusCode": "Failed",
            "StatusMessage": refused["message"],
            "Progress": 100,
        }
        at, number = at + NEXT_TRY, number + 1


def _scaling_group(entry: Entry) -> str:
    return str(entry.outputs["resources"][0]["autoscalingGroups"][0]["name"])


def _tags(at: There) -> Item:
    kinds, keys = filtered(at, "resource-type"), filtered(at, "key")
    found = [
        {"ResourceId": entry.id, "ResourceType": kind, "Key": key, "Value": value}
        for token, kind in TAGGED.items()
        if kind in kinds
        for entry in at.entries(token)
        for key, value in entry.outputs.get("tagsAll", {}).items()
        if key in keys
    ]
    return {"Tags": found}


def _templates(at: There) -> Item:
    names = filtered(at, "launch-template-name")
    found = [entry for entry in at.entries(tokens.LAUNCH_TEMPLATE) if entry.inputs["name"] in names]
    told = [{"LaunchTemplateId": entry.id, "LaunchTemplateName": entry.inputs["name"]} for entry in found]
    return {"LaunchTemplates": told}


def _route_tables(at: There) -> Item:
    subnets = filtered(at, "association.subnet-id")
    found = [
        {
            "RouteTableId": entry.inputs["routeTableId"],
            "Associations": [{"RouteTableAssociationId": entry.id, "SubnetId": entry.inputs["subnetId"]}],
        }
        for entry in at.entries(tokens.ROUTE_TABLE_ASSOCIATION)
        if entry.inputs.get("subnetId") in subnets
    ]
    return {"RouteTables": found}


def _without_route(at: There) -> Item:
    given = at.asked.parameters
    for entry in at.entries(tokens.ROUTE):
        same = entry.inputs["routeTableId"] == given["RouteTableId"]
        if same and entry.inputs.get("destinationCidrBlock") == given["DestinationCidrBlock"]:
            at.records.remove(entry.token, entry.id)
            return {}
    raise AwsError("InvalidRoute.NotFound", f"no route to {given['DestinationCidrBlock']}")


def _without_association(at: There) -> Item:
    at.records.remove(tokens.ROUTE_TABLE_ASSOCIATION, at.asked.parameters["AssociationId"])
    return {}


def _identities(at: There) -> Item:
    wanted = {name: at.asked.parameters[name] for name in ("clusterName", "namespace", "serviceAccount")}
    found = [one for one in at.entries(tokens.POD_IDENTITY_ASSOCIATION) if wanted.items() <= one.inputs.items()]
    return {"associations": [{"associationId": one.id, **wanted} for one in found]}


def _without_identity(at: There) -> Item:
    at.records.remove(tokens.POD_IDENTITY_ASSOCIATION, at.asked.parameters["associationId"])
    return {}


ANSWERS: Mapping[tuple[str, str], Callable[[There], dict[str, Any]]] = {
    ("eks", "DescribeNodegroup"): _node_group,
    ("eks", "ListPodIdentityAssociations"): _identities,
    ("eks", "DeletePodIdentityAssociation"): _without_identity,
    ("autoscaling", "DescribeScalingActivities"): _activities,
    ("ec2", "DescribeTags"): _tags,
    ("ec2", "DescribeLaunchTemplates"): _templates,
    ("ec2", "DescribeRouteTables"): _route_tables,
    ("ec2", "DeleteRoute"): _without_route,
    ("ec2", "DisassociateRouteTable"): _without_association,
}
