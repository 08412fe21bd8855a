"""What EKS refuses of managed node groups at once, and what ends one as CREATE_FAILED after long silence."""

import math

from tools.standin import capacity, cluster_rules, tokens
from tools.standin.account import Entry
from tools.standin.errors import AwsError
from tools.standin.kinds import Call
from tools.standin.launch import Launch, launch_of
from tools.standin.network_rules import reaches_images, vpc_of
from tools.standin.wire import pick

_BAD = "InvalidParameterException"
_CAPACITY = ("ON_DEMAND", "SPOT", "CAPACITY_BLOCK")
_EFFECTS = ("NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE")
# How long EKS says nothing where instances cannot be launched, and where they do not join:
# aws/containers-roadmap#738 and reports in terraform-provider-aws; 15 to 35 minutes.
SILENCE = 1500
# What a template of a managed node group may not say:
# https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
_NOT_IN_TEMPLATE = ("iamInstanceProfile", "hibernationOptions", "instanceInitiatedShutdownBehavior")


def node_group(call: Call) -> None:
    cluster = call.entry(tokens.CLUSTER, "clusterName")
    _sizes(call)
    _versions(call, cluster)
    launch = launch_of(call)
    _template(call, launch)
    capacity.facts(launch.type)
    for subnet in call.inputs["subnetIds"]:
        if cluster and vpc_of(call.records, subnet) != cluster.outputs["vpcConfig"]["vpcId"]:
            raise AwsError(_BAD, f"Subnet {subnet} is not in the VPC of cluster {cluster.id}")
    role = next(
        iter(entry for entry in call.records.all(tokens.ROLE) if entry.outputs["arn"] == call.inputs["nodeRoleArn"])
    )
    if "ec2.amazonaws.com" not in role.inputs["assumeRolePolicy"]:
        raise AwsError(_BAD, f"The role {role.outputs['arn']} cannot be assumed by ec2.amazonaws.com")
    if launch.count:
        try:
            _launch(call, launch)
        except AwsError as error:
            kind = "Spot" if launch.capacity == "SPOT" else "On-Demand"
            message = (
                f"Could not launch {kind} Instances. {error.code} - {error.message} Launching EC2 instance failed."
            )
            failed = "UPDATE_FAILED" if call.old else "CREATE_FAILED"
            raise AwsError("AsgInstanceLaunchFailures", message, slow=SILENCE, partial=failed) from None


def _sizes(call: Call) -> None:
    sizes = call.inputs["scalingConfig"]
    low, wanted, high = sizes["minSize"], sizes["desiredSize"], sizes["maxSize"]
    if not 0 <= low <= wanted <= high or high < 1:
        raise AwsError(
            _BAD, f"minSize {low}, desiredSize {wanted} and maxSize {high} must not fall; maxSize is at least 1"
        )
    for taint in call.inputs.get("taints", []):
        if taint["effect"] not in _EFFECTS:
            raise AwsError(_BAD, f"taint effect {taint['effect']} is none of {', '.join(_EFFECTS)}")
    kind = call.inputs.get("capacityType", "ON_DEMAND")
    if kind not in _CAPACITY:
        raise AwsError(_BAD, f"capacity type {kind} is none of {', '.join(_CAPACITY)}")


def _versions(call: Call, cluster: Entry | None) -> None:
    version = call.inputs.get("version")
    if not version or not cluster:
        return
    above = cluster.outputs["version"]
    if cluster_rules.minor(version) > cluster_rules.minor(above):
        raise AwsError(_BAD, f"Requested Nodegroup version {version} is above the cluster's {above}")
    if call.old and cluster_rules.minor(version) < cluster_rules.minor(call.old.outputs["version"]):
        raise AwsError(_BAD, f"Nodegroup version cannot go back from {call.old.outputs['version']} to {version}")


def _template(call: Call, launch: Launch) -> None:
    template = launch.template
    for name in _NOT_IN_TEMPLATE:
        if name in template:
            raise AwsError("InvalidRequestException", f"Launch template {name} must not be set for managed node groups")
    if pick(template, "networkInterfaces[].subnetId"):
        raise AwsError("InvalidRequestException", "Launch template networkInterfaces must not name subnets")
    if template.get("networkInterfaces") and template.get("vpcSecurityGroupIds"):
        message = "Network interfaces and an instance-level security groups may not be specified on the same request"
        raise AwsError("InvalidParameterCombination", message)
    if template and "diskSize" in call.inputs:
        raise AwsError(_BAD, "Disk size must be specified within the launch template.")
    if ("imageId" in template) != (call.inputs.get("amiType") == "CUSTOM"):
        raise AwsError(_BAD, "an image in the launch template goes with amiType CUSTOM, and only with it")
    market = next(iter(pick(template, "instanceMarketOptions.marketType")), "")
    if (launch.capacity == "CAPACITY_BLOCK") != (market == "capacity-block"):
        raise AwsError(_BAD, f"capacity type {launch.capacity} does not go with the template's market type '{market}'")
    most = capacity.facts(launch.type)["efa"]
    if launch.efa > most:
        message = f"{launch.type} supports {most} EFA interfaces, and the launch template has {launch.efa}"
        raise AwsError("InvalidRequestException", message)


def _launch(call: Call, launch: Launch) -> None:
    before = call.old.hidden.get("running", {}) if call.old else {}
    # Unless told to be MINIMAL, an update launches a new node before it ends an old one.
    extra = 1 if rolls(call) and before.get("count") and not _minimal(call) else 0
    if launch.reservation:
        _into_reservation(call, launch, extra)
    elif launch.capacity == "ON_DEMAND" and launch.running() != before:
        same = before if before.get("type") == launch.type and not before.get("reservation") else {}
        capacity.grant(call, launch.type, launch.zone, launch.count + extra, freed=same.get("count", 0))
    if launch.placement_group and call.records.get(tokens.PLACEMENT_GROUP, launch.placement_group) is None:
        raise AwsError("InvalidPlacementGroup.Unknown", f"The Placement Group '{launch.placement_group}' is unknown.")


def rolls(call: Call) -> bool:
    """Whether an update puts other nodes in the place of those that are there."""
    return call.changed("launchTemplate.version", "version", "releaseVersion")


def _minimal(call: Call) -> bool:
    return bool(call.inputs.get("updateConfig", {}).get("updateStrategy") == "MINIMAL")


def ended_first(call: Call) -> int:
    """How many of the running nodes a roll has ended before it launches any."""
    count = int(call.old.hidden.get("running", {}).get("count", 0)) if call.old else 0
    if not (rolls(call) and _minimal(call)):
        return 0
    config = call.inputs["updateConfig"]
    share = math.ceil(count * int(config.get("maxUnavailablePercentage", 0)) / 100)
    return min(count, max(1, share, int(config.get("maxUnavailable", 0))))


def _into_reservation(call: Call, launch: Launch, extra: int) -> None:
    there = call.records.get(tokens.CAPACITY_RESERVATION, launch.reservation)
    if there is None:
        message = f"The reservation ID '{launch.reservation}' does not exist."
        raise AwsError("InvalidCapacityReservationId.NotFound", message)
    wanted, given = (launch.type, launch.zone), (there.inputs["instanceType"], there.inputs["availabilityZone"])
    if capacity.ended(there, call.moment.date) or wanted != given:
        message = (
            "The requested reservation does not have sufficient compatible and available capacity for this request."
        )
        raise AwsError("ReservationCapacityExceeded", message)
    group = there.inputs.get("placementGroupArn", "").rpartition("/")[2]
    if group != launch.placement_group:
        message = f"There is no capacity in placement group '{launch.placement_group}' for reservation {there.id}."
        raise AwsError("InsufficientInstanceCapacity", message)
    free = capacity.free_in(call.records, there, but=call.id)
    if launch.count + extra > free:
        message = (
            "The requested reservation does not have sufficient compatible and available capacity for this request."
        )
        raise AwsError("ReservationCapacityExceeded", message)


def nodes_join(call: Call) -> None:
    """Asked when the group's time has passed: what came up meanwhile counts."""
    launch = launch_of(call)
    cluster = call.entry(tokens.CLUSTER, "clusterName")
    if not launch.count or cluster is None:
        return
    reason = ""
    group = cluster.outputs["vpcConfig"]["clusterSecurityGroupId"]
    if launch.groups and group not in launch.groups:
        reason = f"their security groups leave out the cluster's, {group}"
    elif not all(reaches_images(call.records, subnet) for subnet in call.inputs["subnetIds"]):
        reason = "their subnets lead nowhere that has images: no default route, and not the endpoints of ECR and S3"
    elif not cluster.inputs.get("bootstrapSelfManagedAddons", True) and not _has_cni(call, cluster):
        reason = "container runtime network not ready: cni plugin not initialized"
    if reason:
        message = f"Instances failed to join the kubernetes cluster ({reason})"
        raise AwsError("NodeCreationFailure", message, slow=SILENCE, partial="CREATE_FAILED")


def _has_cni(call: Call, cluster: Entry) -> bool:
    return call.records.get(tokens.ADDON, f"{cluster.id}:vpc-cni") is not None
