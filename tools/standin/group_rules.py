"""What EC2 refuses of security groups, their rules, and launch templates."""

from typing import Any

from tools.standin import tokens
from tools.standin.account import Entry
from tools.standin.errors import AwsError
from tools.standin.kinds import Call

Key = tuple[str, str, str, Any, Any, str]
_RULES = (tokens.INGRESS_RULE, tokens.EGRESS_RULE, tokens.SECURITY_GROUP_RULE)


def group(call: Call) -> None:
    for other in call.records.all(tokens.SECURITY_GROUP):
        same = other.inputs.get("vpcId") == call.inputs.get("vpcId") and other.inputs["name"] == call.inputs["name"]
        if same and other.id != call.id:
            message = f"The security group '{call.inputs['name']}' already exists for VPC '{call.inputs.get('vpcId')}'"
            raise AwsError("InvalidGroup.Duplicate", message)


def keys(call: Call) -> list[Key]:
    return _keys(call.token, dict(call.inputs))


def _keys(token: str, inputs: dict[str, Any]) -> list[Key]:
    """What a rule allows: group, direction, protocol, ports, peer; one for each peer."""
    group = inputs["securityGroupId"]
    protocol = str(inputs.get("ipProtocol", inputs.get("protocol", "-1"))).replace("all", "-1")
    ports = (None, None) if protocol == "-1" else (inputs.get("fromPort"), inputs.get("toPort"))
    if token == tokens.SECURITY_GROUP_RULE:
        direction = inputs["type"]
        peers = [*inputs.get("cidrBlocks", []), *inputs.get("ipv6CidrBlocks", []), *inputs.get("prefixListIds", [])]
        peers += [inputs["sourceSecurityGroupId"]] if "sourceSecurityGroupId" in inputs else []
        peers += [group] * bool(inputs.get("self"))
    else:
        direction = "ingress" if token == tokens.INGRESS_RULE else "egress"
        names = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")
        peers = [inputs[name] for name in names if name in inputs]
    return [(group, direction, protocol, *ports, peer) for peer in peers]


def _inline(group: Entry) -> list[Key]:
    """What the rules within a group allow."""
    found: list[Key] = []
    for direction in ("ingress", "egress"):
        for item in group.inputs.get(direction, []):
            given = {**item, "type": direction, "securityGroupId": group.id}
            found += _keys(tokens.SECURITY_GROUP_RULE, given)
            found += [
                key
                for other in item.get("securityGroups", [])
                for key in _keys(tokens.SECURITY_GROUP_RULE, {**given, "self": False, "sourceSecurityGroupId": other})
            ]
    return found


def rule(call: Call) -> None:
    mine = keys(call)
    if not mine:
        raise AwsError("MissingParameter", "a security group rule needs a peer: a CIDR, a prefix list or a group")
    there = {key for token in _RULES for other in call.records.all(token) if other.id != call.id
             for key in _keys(token, other.inputs)}  # fmt: skip
    entry = call.entry(tokens.SECURITY_GROUP, "securityGroupId")
    if entry:
        there |= {(entry.id, *rule) for rule in entry.hidden.get("rules", [])} | set(_inline(entry))
    for key in mine:
        if key in there:
            raise AwsError("InvalidPermission.Duplicate", f'the specified rule "peer: {key[-1]}, ALL" already exists')


def template(call: Call) -> None:
    name = call.inputs["name"]
    for other in call.records.all(tokens.LAUNCH_TEMPLATE, call.region):
        if other.id != call.id and other.inputs["name"] == name:
            message = "Launch template name already in use."
            raise AwsError("InvalidLaunchTemplateName.AlreadyExistsException", message)
    for device in call.inputs.get("blockDeviceMappings", []):
        disk = device.get("ebs", {})
        size, iops, throughput = disk.get("volumeSize", 0), disk.get("iops", 3000), disk.get("throughput", 125)
        # https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html
        if disk.get("volumeType") == "gp3" and (
            throughput > 2000 or throughput * 4 > iops or iops > max(500 * size, 3000)
        ):
            message = f"gp3 of {size} GiB cannot have {iops} IOPS with {throughput} MiB/s"
            raise AwsError("InvalidParameterCombination", message)
