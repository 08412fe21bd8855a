"""What a node group launches: its own settings and those of its launch template's version, as one."""

from dataclasses import dataclass
from typing import Any

from tools.standin import tokens
from tools.standin.account import Entry
from tools.standin.errors import AwsError
from tools.standin.kinds import Call
from tools.standin.wire import pick

_EFA = ("efa", "efa-only")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """`from_template`: the instance type stands in the template. `efa` counts interfaces, `groups` security groups."""

    type: str
    zone: str
    count: int
    capacity: str
    from_template: bool
    template: dict[str, Any]
    reservation: str
    placement_group: str
    version: str
    groups: list[str]
    efa: int

    def running(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "zone": self.zone,
            "count": self.count,
            "capacity": self.capacity,
            "reservation": self.reservation,
            "group": self.placement_group,
            "efa": self.efa,
            "template": self.version,
        }


def launch_of(call: Call) -> Launch:
    """Raises AwsError for a template or version that is not there, and where the two contradict each other."""
    version, template = _template(call)
    types = call.inputs.get("instanceTypes", [])
    if types and "instanceType" in template:
        message = "You cannot specify instance types in both the node group and its launch template"
        raise AwsError("InvalidParameterException", message)
    subnets = [call.records.get(tokens.SUBNET, id) for id in call.inputs["subnetIds"]]
    interfaces = template.get("networkInterfaces", [])
    target = "capacityReservationSpecification.capacityReservationTarget.capacityReservationId"
    return Launch(
        type=template.get("instanceType") or (types or ["t3.medium"])[0],
        zone=next((entry.outputs["availabilityZone"] for entry in subnets if entry), ""),
        count=int(call.inputs["scalingConfig"]["desiredSize"]),
        capacity=call.inputs.get("capacityType", "ON_DEMAND"),
        from_template="instanceType" in template,
        template=template,
        reservation=next(iter(pick(template, target)), ""),
        placement_group=next(iter(pick(template, "placement.groupName")), ""),
        version=version,
        groups=template.get("vpcSecurityGroupIds")
        or sorted(set(pick(template, "networkInterfaces[].securityGroups[]"))),
        efa=sum(1 for interface in interfaces if interface.get("interfaceType") in _EFA),
    )


def _template(call: Call) -> tuple[str, dict[str, Any]]:
    """The version that the group names, and what it says; nothing without a template."""
    named = call.inputs.get("launchTemplate")
    if not named:
        return "", {}
    entry = _find(call, named)
    if entry is None:
        raise AwsError("InvalidRequestException", f"Launch template {named.get('id') or named.get('name')} not found")
    version = str(named["version"])
    numbers = {"$Latest": entry.outputs["latestVersion"], "$Default": entry.outputs["defaultVersion"]}
    versions = entry.hidden["versions"]
    number = str(numbers.get(version, version))
    if number not in versions:
        message = f"Could not find the specified version {version} for the launch template with ID {entry.id}."
        raise AwsError("InvalidLaunchTemplateId.VersionNotFound", message)
    return number, versions[number]


def _find(call: Call, named: dict[str, Any]) -> Entry | None:
    if "id" in named:
        return call.records.get(tokens.LAUNCH_TEMPLATE, named["id"])
    there = call.records.all(tokens.LAUNCH_TEMPLATE, call.region)
    return next((entry for entry in there if entry.inputs["name"] == named.get("name")), None)
