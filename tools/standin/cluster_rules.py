"""What EKS refuses of clusters, add-ons, access entries and associations."""

import ipaddress
import json
import re

from tools.standin import tokens
from tools.standin.account import Entry, Records
from tools.standin.errors import AwsError
from tools.standin.kinds import Call
from tools.standin.network_rules import vpc_of
from tools.standin.zones import NO_CONTROL_PLANE

# https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html, November 2026 as far as known here.
VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35")
NEWEST = VERSIONS[-1]
_NAME = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}")
_ADDONS = {
    "vpc-cni",
    "coredns",
    "kube-proxy",
    "eks-pod-identity-agent",
    "aws-ebs-csi-driver",
    "aws-efs-csi-driver",
    "aws-fsx-csi-driver",
    "aws-mountpoint-s3-csi-driver",
    "amazon-cloudwatch-observability",
    "metrics-server",
    "eks-node-monitoring-agent",
}
# Deployments: they are healthy only on nodes. The others are DaemonSets, which are satisfied by none.
_ON_NODES = {"coredns", "aws-ebs-csi-driver", "aws-efs-csi-driver", "aws-fsx-csi-driver", "metrics-server"}
_ADDON_VERSION = re.compile(r"v\d+\.\d+\.\d+-eksbuild\.\d+")
_BAD = "InvalidParameterException"
# Private, shared, link-local, multicast, documentation, this host, reserved (RFC 6890): what EKS is known to refuse of
# it are the first ones and the documentation's.
_NOT_PUBLIC = [
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "169.254.0.0/16",
        "224.0.0.0/4",
        "192.0.2.0/24",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "127.0.0.0/8",
        "240.0.0.0/4",
        "fc00::/7",
        "fe80::/10",
        "ff00::/8",
        "2001:db8::/32",
    )
]


def minor(version: str) -> int:
    return int(version.partition(".")[2])


def cluster(call: Call) -> None:
    inputs = call.inputs
    version = inputs.get("version", NEWEST)
    if not _NAME.fullmatch(inputs["name"]):
        raise AwsError(_BAD, f"The name '{inputs['name']}' is no name for a cluster")
    if version not in VERSIONS:
        raise AwsError(_BAD, f"unsupported Kubernetes version {version}")
    if call.old:
        before = call.old.outputs["version"]
        if minor(version) < minor(before):
            raise AwsError(_BAD, f"Unsupported Kubernetes minor version update from {before} to {version}")
        if minor(version) > minor(before) + 1:
            raise AwsError(_BAD, f"Unsupported Kubernetes minor version update from {before} to {version}")
    _cluster_network(call)
    modes = ("API", "API_AND_CONFIG_MAP", "CONFIG_MAP")
    mode = inputs.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    if mode not in modes:
        raise AwsError(_BAD, f"authentication mode {mode} is none of {', '.join(modes)}")
    if call.old and modes.index(mode) > modes.index(call.old.outputs["accessConfig"]["authenticationMode"]):
        raise AwsError(_BAD, "the authentication mode cannot be taken back")


def _cluster_network(call: Call) -> None:
    vpc_config = call.inputs["vpcConfig"]
    subnets = [call.records.get(tokens.SUBNET, id) for id in vpc_config["subnetIds"]]
    there = [entry for entry in subnets if entry]
    if len({entry.outputs["availabilityZone"] for entry in there}) < 2:
        raise AwsError(_BAD, "Subnets specified must be in at least two different AZs")
    if len({entry.inputs["vpcId"] for entry in there}) > 1:
        raise AwsError(_BAD, "Subnets specified must be in the same VPC")
    bad = [
        entry.outputs["availabilityZone"] for entry in there if entry.outputs["availabilityZoneId"] in NO_CONTROL_PLANE
    ]
    if bad and not call.old:
        message = (
            f"Cannot create cluster '{call.inputs['name']}' because {bad[0]}, the targeted availability zone, does not"
        )
        raise AwsError("UnsupportedAvailabilityZoneException", f"{message} currently have sufficient capacity")
    vpc = vpc_of(call.records, there[0].id)
    _same_place(call, vpc)
    _from_the_internet(vpc_config.get("publicAccessCidrs", []))
    for id in vpc_config.get("securityGroupIds", []):
        group = call.records.get(tokens.SECURITY_GROUP, id)
        if group and group.inputs.get("vpcId") != vpc:
            raise AwsError(_BAD, f"The security group '{id}' is not in the VPC '{vpc}'")
    public = vpc_config.get("endpointPublicAccess", True)
    if not public and not vpc_config.get("endpointPrivateAccess", False):
        raise AwsError(_BAD, "Private and public endpoint access cannot be disabled at the same time")


def zones_of(call: Call) -> list[str]:
    subnets = [call.records.get(tokens.SUBNET, id) for id in call.inputs["vpcConfig"]["subnetIds"]]
    return sorted({entry.outputs["availabilityZone"] for entry in subnets if entry})


def _same_place(call: Call, vpc: str) -> None:
    """A cluster's subnets may be others, in the network and the zones that it was made in."""
    if call.old is None or not call.changed("vpcConfig.subnetIds[]"):
        return
    if vpc != call.old.outputs["vpcConfig"]["vpcId"]:
        raise AwsError(_BAD, f"Provided subnets are not in the VPC '{call.old.outputs['vpcConfig']['vpcId']}'")
    now, then = zones_of(call), call.old.hidden["zones"]
    if now != then:
        message = (
            f"Provided subnets belong to the AZs '{','.join(now)}'. But they should belong to the exact set of AZs"
        )
        raise AwsError(_BAD, f"{message} '{','.join(then)}' in which subnets were provided during cluster creation.")


def _from_the_internet(cidrs: list[str]) -> None:
    refused = []
    for cidr in cidrs:
        try:
            network = ipaddress.ip_network(cidr)
        except ValueError:
            raise AwsError(_BAD, f"The following CIDRs are invalid in publicAccessCidrs: [{cidr}]") from None
        if any(network.version == other.version and network.subnet_of(other) for other in _NOT_PUBLIC):  # type: ignore[arg-type]
            refused.append(cidr)
    if refused:
        raise AwsError(_BAD, f"The following CIDRs are not allowed in publicAccessCidrs: [{', '.join(refused)}]")


def keep_cluster(call: Call) -> None:
    if call.old and call.old.inputs.get("deletionProtection"):
        raise AwsError("InvalidRequestException", f"Cluster {call.id} has deletion protection enabled")


def has_nodes(records: Records, cluster: str, region: str) -> bool:
    groups = [entry for entry in records.all(tokens.NODE_GROUP, region) if entry.inputs["clusterName"] == cluster]
    return any(entry.outputs["status"] == "ACTIVE" and entry.hidden["running"]["count"] for entry in groups)


def addon(call: Call) -> None:
    name, version = call.inputs["addonName"], call.inputs.get("addonVersion", "v1.0.0-eksbuild.1")
    if name not in _ADDONS:
        raise AwsError("ResourceNotFoundException", f"Addon specified is not supported: {name}")
    if not _ADDON_VERSION.fullmatch(version):
        raise AwsError(_BAD, f"Addon version specified is not supported: {version}")
    values = call.inputs.get("configurationValues", "")
    if values and not _is_object(values):
        raise AwsError(_BAD, f"ConfigurationValue provided in request is not supported: {values}")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def addon_healthy(call: Call) -> None:
    name, cluster = call.inputs["addonName"], call.inputs["clusterName"]
    if name in _ON_NODES and not has_nodes(call.records, cluster, call.region):
        message = (
            f"unexpected state 'DEGRADED', wanted target 'ACTIVE'. last error: InsufficientNumberOfReplicas: {name}"
        )
        # The provider waits 20 minutes for an add-on, its creation included.
        raise AwsError("InsufficientNumberOfReplicas", message, slow=1155, partial="DEGRADED")


def _cluster_of(call: Call) -> Entry | None:
    return call.entry(tokens.CLUSTER, "clusterName")


def access_entry(call: Call) -> None:
    cluster = _cluster_of(call)
    if cluster and cluster.outputs["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
        message = "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP]"
        raise AwsError("InvalidRequestException", message)
    if not re.fullmatch(r"arn:aws[\w-]*:iam::\d{12}:(role|user)/.+", call.inputs["principalArn"]):
        raise AwsError(_BAD, f"The principalArn '{call.inputs['principalArn']}' is not a role or user")


def access_policy(call: Call) -> None:
    policy = call.inputs["policyArn"]
    if not policy.startswith("arn:aws:eks::aws:cluster-access-policy/AmazonEKS"):
        raise AwsError(_BAD, f"The policyArn parameter format is not valid: {policy}")
    entry = f"{call.inputs['clusterName']}:{call.inputs['principalArn']}"
    if call.records.get(tokens.ACCESS_ENTRY, entry) is None:
        raise AwsError("ResourceNotFoundException", f"The specified principalArn has no access entry: {entry}")


def pod_identity(call: Call) -> None:
    names = ("clusterName", "namespace", "serviceAccount")
    for other in call.records.all(tokens.POD_IDENTITY_ASSOCIATION, call.region):
        if other.id != call.id and all(other.inputs[name] == call.inputs[name] for name in names):
            raise AwsError("ResourceInUseException", f"Association already exists: {other.id}")
