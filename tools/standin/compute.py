"""Security groups, placement groups, capacity reservations, launch templates."""

import hashlib
from typing import Any

from tools.standin import capacity, group_rules, tokens
from tools.standin.account import new_id
from tools.standin.kinds import Call, Kind, Refers
from tools.standin.network import IN_VPC, with_groups

_TEMPLATE_ONLY_TAGS = ("tags", "tagsAll", "name", "namePrefix", "updateDefaultVersion", "defaultVersion", "region")


def _group(call: Call) -> dict[str, Any]:
    return {"arn": call.arn("ec2", f"security-group/{call.id}"), "ownerId": call.account}


def _rule(call: Call) -> dict[str, Any]:
    return {"arn": call.arn("ec2", f"security-group-rule/{call.id}"), "securityGroupRuleId": call.id}


def _old_rule_id(call: Call) -> str:
    # The provider's own id of a rule without one: a hash of what it allows.
    return f"sgrule-{int(hashlib.sha256(repr(sorted(group_rules.keys(call))).encode()).hexdigest()[:8], 16)}"


def _placement_group(call: Call) -> dict[str, Any]:
    return {"arn": call.arn("ec2", f"placement-group/{call.id}"), "placementGroupId": new_id("pg")}


def _reservation(call: Call) -> dict[str, Any]:
    call.hidden["state"] = "active"
    return {"arn": call.arn("ec2", f"capacity-reservation/{call.id}"), "ownerId": call.account}


def _template(call: Call) -> dict[str, Any]:
    call.hidden["versions"] = {"1": _template_data(call)}
    return {"arn": call.arn("ec2", f"launch-template/{call.id}"), "latestVersion": 1, "defaultVersion": 1}


def _new_version(call: Call) -> dict[str, Any]:
    """An update of what a template says makes a version; one of its tags does not."""
    assert call.old is not None, "an update has something to update"
    latest = int(call.old.outputs["latestVersion"])
    versions = dict(call.old.hidden["versions"])
    if _template_data(call) != versions[str(latest)]:
        latest += 1
        versions[str(latest)] = _template_data(call)
    call.hidden["versions"] = versions
    default = latest if call.inputs.get("updateDefaultVersion") else call.inputs.get("defaultVersion")
    return {"latestVersion": latest, "defaultVersion": default or call.old.outputs["defaultVersion"]}


def _template_data(call: Call) -> dict[str, Any]:
    return {name: value for name, value in call.inputs.items() if name not in (*_TEMPLATE_ONLY_TAGS, "__defaults")}


def _rules_kind(token: str, refers: tuple[Refers, ...]) -> Kind:
    return Kind(
        token=token,
        service="EC2",
        new_id=lambda call: new_id("sgr"),
        outputs=_rule,
        refuse=group_rules.rule,
        fixed=("securityGroupId",),
        refers=refers,
    )


_OF_GROUP = (
    Refers(path="securityGroupId", token=tokens.SECURITY_GROUP, missing="InvalidGroup.NotFound"),
    with_groups("referencedSecurityGroupId"),
)

KINDS = (
    Kind(
        token=tokens.SECURITY_GROUP,
        service="EC2",
        new_id=lambda call: new_id("sg"),
        outputs=_group,
        refuse=group_rules.group,
        defaults={"description": "Managed by Pulumi", "ingress": [], "egress": [], "revokeRulesOnDelete": False},
        fixed=("name", "namePrefix", "description", "vpcId"),
        named="name",
        refers=(IN_VPC, with_groups("ingress[].securityGroups[]"), with_groups("egress[].securityGroups[]")),
    ),
    _rules_kind(tokens.INGRESS_RULE, _OF_GROUP),
    _rules_kind(tokens.EGRESS_RULE, _OF_GROUP),
    Kind(
        token=tokens.SECURITY_GROUP_RULE,
        service="EC2",
        new_id=_old_rule_id,
        outputs=lambda call: {"securityGroupRuleId": new_id("sgr")},
        refuse=group_rules.rule,
        fixed=(
            "securityGroupId",
            "type",
            "protocol",
            "fromPort",
            "toPort",
            "cidrBlocks",
            "ipv6CidrBlocks",
            "prefixListIds",
            "self",
            "sourceSecurityGroupId",
        ),
        defaults={"self": False},
        exists="InvalidPermission.Duplicate",
        refers=(
            Refers(path="securityGroupId", token=tokens.SECURITY_GROUP, missing="InvalidGroup.NotFound"),
            with_groups("sourceSecurityGroupId"),
        ),
    ),
    Kind(
        token=tokens.PLACEMENT_GROUP,
        service="EC2",
        new_id=lambda call: str(call.inputs["name"]),
        outputs=_placement_group,
        keep=capacity.keep_placement_group,
        defaults={"partitionCount": 0, "spreadLevel": ""},
        fixed=("name", "strategy", "partitionCount", "spreadLevel"),
        named="name",
        exists="InvalidPlacementGroup.Duplicate",
    ),
    Kind(
        token=tokens.CAPACITY_RESERVATION,
        service="EC2",
        new_id=lambda call: new_id("cr"),
        outputs=_reservation,
        refuse=capacity.reservation,
        keep=capacity.keep_reservation,
        steps=capacity.reservation_steps,
        ended=capacity.ended,
        defaults={
            "tenancy": "default",
            "endDateType": "unlimited",
            "instanceMatchCriteria": "open",
            "ebsOptimized": False,
            "ephemeralStorage": False,
        },
        fixed=(
            "availabilityZone",
            "instanceType",
            "instancePlatform",
            "instanceMatchCriteria",
            "tenancy",
            "ebsOptimized",
            "ephemeralStorage",
        ),
        refers=(
            Refers(
                path="placementGroupArn",
                token=tokens.PLACEMENT_GROUP,
                missing="InvalidPlacementGroup.Unknown",
                by="arn",
                blocks="InvalidPlacementGroup.InUse",
            ),
        ),
    ),
    Kind(
        token=tokens.LAUNCH_TEMPLATE,
        service="EC2",
        new_id=lambda call: new_id("lt"),
        outputs=_template,
        updated=_new_version,
        refuse=group_rules.template,
        computed=("defaultVersion",),
        changing=("latestVersion", "defaultVersion"),
        fixed=("name", "namePrefix"),
        named="name",
        # A template may name what is not there; it is found out at launch.
        refers=(),
    ),
)
