"""PURE: what a killed `pulumi` was making, and how AWS's answer gets back into the state.

The engine writes down what it begins, and knows nothing of its end: a further `up` would make a second one of each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_ROUTE = "aws:ec2/route:Route"
_ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
_IDENTITY = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
# What has no name by which it could be found again and may be there twice for nobody: ended, and made anew.
UNDONE = (_ROUTE, _ASSOCIATION, _IDENTITY)

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"

Inputs = Mapping[str, Any]
# The id that the provider gives a thing follows from its inputs.
_BY_INPUTS: Mapping[str, Callable[[Inputs], str]] = {
    "aws:iam/role:Role": lambda given: str(given["name"]),
    "aws:iam/rolePolicy:RolePolicy": lambda given: f"{given['role']}:{given['name']}",
    "aws:eks/cluster:Cluster": lambda given: str(given["name"]),
    "aws:eks/nodeGroup:NodeGroup": lambda given: f"{given['clusterName']}:{given['nodeGroupName']}",
    "aws:eks/addon:Addon": lambda given: f"{given['clusterName']}:{given['addonName']}",
    "aws:eks/accessEntry:AccessEntry": lambda given: f"{given['clusterName']}:{given['principalArn']}",
    "aws:cloudwatch/logGroup:LogGroup": lambda given: str(given["name"]),
    "aws:s3/bucket:Bucket": lambda given: str(given["bucket"]),
    "aws:kms/alias:Alias": lambda given: str(given["name"]),
    "aws:scheduler/schedule:Schedule": lambda given: f"{given.get('groupName') or 'default'}/{given['name']}",
    "aws:ec2/placementGroup:PlacementGroup": lambda given: str(given["name"]),
}
# What EC2's tags find: the provider's type by DescribeTags' resource type.
TAGGED = {
    "aws:ec2/capacityReservation:CapacityReservation": "capacity-reservation",
    "aws:ec2/vpc:Vpc": "vpc",
    "aws:ec2/subnet:Subnet": "subnet",
    "aws:ec2/internetGateway:InternetGateway": "internet-gateway",
    "aws:ec2/routeTable:RouteTable": "route-table",
    "aws:ec2/eip:Eip": "elastic-ip",
    "aws:ec2/natGateway:NatGateway": "natgateway",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "vpc-endpoint",
    "aws:ec2/securityGroup:SecurityGroup": "security-group",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "security-group-rule",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": "security-group-rule",
    TEMPLATE: "launch-template",
    # Looked for by their services' own lists.
    "aws:fsx/lustreFileSystem:LustreFileSystem": "FSx file system",
    "aws:kms/key:Key": "KMS key",
}


@dataclass(frozen=True, kw_only=True)
class Tagged:
    """A thing of the stack as AWS has it: `kind` as in TAGGED, `name` its Name tag or empty, a template's own name,
    None where it was not told."""

    kind: str
    id: str
    name: str | None = ""


@dataclass(frozen=True, kw_only=True)
class Adopted:
    urn: str
    id: str


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """`adopted` belong into the state, `undone` are inputs by type of what is to be ended in AWS.

    `unclear` are URNs with several things in AWS that could be theirs.
    """

    adopted: tuple[Adopted, ...] = ()
    undone: tuple[tuple[str, Inputs], ...] = ()
    unclear: tuple[str, ...] = field(default=())


def creating(deployment: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The resources of AWS whose creation has no end in the state; those of Kubernetes are taken over by name."""
    operations = deployment.get("pending_operations") or []
    return [
        one["resource"]
        for one in operations
        if one["type"] == "creating" and one["resource"]["type"].startswith("aws:") and one["resource"].get("custom")
    ]


def deleting(deployment: Mapping[str, Any]) -> list[str]:
    """URNs of AWS resources whose deletion has no end in the state. A predecessor's is the engine's to finish: its URN
    is its successor's too."""
    replaced = {one["urn"] for one in deployment.get("resources") or [] if one.get("delete")}
    operations = deployment.get("pending_operations") or []
    urns = [one["resource"]["urn"] for one in operations if one["type"] == "deleting"]
    return [urn for urn in urns if _type(urn).startswith("aws:") and urn not in replaced]


def recovery(
    made: Sequence[Mapping[str, Any]], resources: Sequence[Mapping[str, Any]], there: Sequence[Tagged]
) -> Recovery:
    """`made` as `creating` gives it, `resources` those of the state, `there` what AWS has with the stack's tag."""
    known = {(one["type"], str(one.get("id"))) for one in resources}
    adopted, undone, unclear = [], [], []
    taken: set[str] = set()
    for one in made:
        token, inputs = one["type"], one.get("inputs") or {}
        if token in UNDONE:
            undone.append((token, inputs))
        elif token in _BY_INPUTS:
            id = _BY_INPUTS[token](inputs)
            if (token, id) not in known:
                adopted.append(Adopted(urn=one["urn"], id=id))
        elif token in TAGGED:
            found = [each for each in there if each.kind == TAGGED[token] and (token, each.id) not in known]
            name = str(inputs["name"] if token == TEMPLATE else (inputs.get("tags") or {}).get("Name", ""))
            fitting = [each.id for each in found if each.name in (None, name) and each.id not in taken]
            if len(fitting) > 1:
                unclear.append(str(one["urn"]))
            elif fitting:
                taken.add(fitting[0])
                adopted.append(Adopted(urn=one["urn"], id=fitting[0]))
    return Recovery(adopted=tuple(adopted), undone=tuple(undone), unclear=tuple(unclear))


def repaired(exported: Mapping[str, Any], found: Recovery) -> dict[str, Any]:
    """The export with what was adopted among its resources, and nothing pending; a refresh then reads the outputs."""
    deployment = dict(exported["deployment"])
    pending = {one["urn"]: one for one in creating(deployment)}
    deployment.pop("pending_operations", None)
    urns = {one.urn for one in found.adopted}
    # A successor: what it replaces is still there, and goes with the next update.
    kept = [{**one, "delete": True} if one["urn"] in urns else one for one in deployment.get("resources") or []]
    new = [
        {**pending[one.urn], "id": one.id, "outputs": dict(pending[one.urn].get("inputs") or {})}
        for one in found.adopted
    ]
    deployment["resources"] = [*kept, *new]
    return {**exported, "deployment": deployment}


def _type(urn: str) -> str:
    """The type token of a URN, its parents' types left out."""
    return urn.split("::")[2].rpartition("$")[2]
