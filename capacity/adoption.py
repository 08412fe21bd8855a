"""What AWS has of a stack whose `pulumi` was killed: asked by tag and name, ended where it cannot be found again."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from capacity import audit_services
from capacity.aws import AS_ENVIRONMENT, Access, asking, client
from capacity.looking import NAME_TAG, Looking
from capacity.pending import TAGGED, TEMPLATE, UNDONE, Tagged

CLUSTER, NODE_GROUP = "aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup"
# EKS takes up to a quarter of an hour for a control plane.
_CLUSTER_S, _LOOK_S = 1500.0, 15.0
_LISTS = {"FSx file system": audit_services.file_systems, "KMS key": audit_services.keys}

Made = Sequence[Mapping[str, Any]]
Say = Callable[[str], None]


def tagged(made: Made, *, region: str, name: str, access: Access = AS_ENVIRONMENT) -> list[Tagged]:
    """What could be one of `made`, by the stack's tag. Raises AwsRefusedError."""
    kinds = {TAGGED[one["type"]] for one in made if one["type"] in TAGGED}
    if not kinds:
        return []
    with asking(f"what has the tag {NAME_TAG}={name}", region=region):
        return list(_tagged(kinds, made, region=region, name=name, access=access))


def _tagged(kinds: set[str], made: Made, *, region: str, name: str, access: Access) -> Iterator[Tagged]:
    ec2 = client("ec2", region, access=access)
    ours, names = [], dict[str, str]()
    filters = [{"Name": "resource-type", "Values": sorted(kinds - set(_LISTS) - {TAGGED[TEMPLATE]})}]
    if filters[0]["Values"]:
        for page in ec2.get_paginator("describe_tags").paginate(
            Filters=[{"Name": "key", "Values": [NAME_TAG, "Name"]}, *filters]
        ):
            for tag in page["Tags"]:
                if tag["Key"] == "Name":
                    names[tag["ResourceId"]] = tag["Value"]
                elif tag["Value"] == name:
                    ours.append((tag["ResourceType"], tag["ResourceId"]))
    yield from (Tagged(kind=kind, id=id, name=names.get(id, "")) for kind, id in ours)
    for one in made:
        if one["type"] == TEMPLATE:
            wanted = [{"Name": "launch-template-name", "Values": [one["inputs"]["name"]]}]
            for found in ec2.describe_launch_templates(Filters=wanted)["LaunchTemplates"]:
                yield Tagged(kind=TAGGED[TEMPLATE], id=found["LaunchTemplateId"], name=found["LaunchTemplateName"])
    # A key that waits for its deletion is an earlier one's.
    at = Looking(region=region, tags={NAME_TAG: name}, clusters=(), kept=(), access=access)
    for kind in sorted(kinds & set(_LISTS)):
        yield from (Tagged(kind=kind, id=left.id, name=None) for left in _LISTS[kind](at) if left.bills)


def status(token: str, id: str, *, region: str, access: Access = AS_ENVIRONMENT) -> str:
    """Of a control plane (its name) or a node group (CLUSTER:GROUP), as EKS has it; empty where it has none."""
    eks = client("eks", region, access=access)
    cluster, _, group = id.partition(":")
    with asking(f"how {id} is", region=region):
        try:
            if token == CLUSTER:
                return str(eks.describe_cluster(name=id)["cluster"]["status"])
            return str(eks.describe_nodegroup(clusterName=cluster, nodegroupName=group)["nodegroup"]["status"])
        except eks.exceptions.ResourceNotFoundException:
            return ""


def undo(token: str, inputs: Mapping[str, Any], *, region: str, access: Access = AS_ENVIRONMENT) -> None:
    """Ends what may have been made and has no id that could be known; what is not there is no error."""
    with asking(f"the end of a {token.rpartition(':')[2]}", region=region):
        try:
            _UNDO[token](inputs, region, access)
        except ClientError as error:
            if "NotFound" not in str(error.response["Error"]["Code"]):
                raise


def wait_for_cluster(
    made: Made, say: Say, *, region: str, access: Access = AS_ENVIRONMENT, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Until a control plane that was begun is there: without its endpoint nothing in it can be made."""
    for name in [str(one["inputs"]["name"]) for one in made if one["type"] == CLUSTER]:
        for look in range(int(_CLUSTER_S / _LOOK_S)):
            if status(CLUSTER, name, region=region, access=access) != "CREATING":
                break
            if look == 0:
                say(f"control plane {name} is still being made, begun by what was interrupted: waiting for it")
            sleep(_LOOK_S)


def _route(inputs: Mapping[str, Any], region: str, access: Access) -> None:
    client("ec2", region, access=access).delete_route(
        RouteTableId=inputs["routeTableId"], DestinationCidrBlock=inputs["destinationCidrBlock"]
    )


def _association(inputs: Mapping[str, Any], region: str, access: Access) -> None:
    ec2 = client("ec2", region, access=access)
    wanted = [{"Name": "association.subnet-id", "Values": [inputs["subnetId"]]}]
    for table in ec2.describe_route_tables(Filters=wanted)["RouteTables"]:
        for one in table["Associations"]:
            if one.get("SubnetId") == inputs["subnetId"]:
                ec2.disassociate_route_table(AssociationId=one["RouteTableAssociationId"])


def _identity(inputs: Mapping[str, Any], region: str, access: Access) -> None:
    eks, cluster = client("eks", region, access=access), inputs["clusterName"]
    found = eks.list_pod_identity_associations(
        clusterName=cluster, namespace=inputs["namespace"], serviceAccount=inputs["serviceAccount"]
    )
    for one in found["associations"]:
        eks.delete_pod_identity_association(clusterName=cluster, associationId=one["associationId"])


_UNDO = dict(zip(UNDONE, (_route, _association, _identity), strict=True))
