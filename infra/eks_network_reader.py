"""Reading the settings of an eks stack's network and cluster."""

import ipaddress
import re

from infra import versions
from infra.config_reader import ConfigReader
from infra.eks_settings import ClusterSettings, NetworkSettings

NAT = ("one", "per-zone", "none")
ENDPOINTS = ("s3", "ecr")
# In eksEndpointCidrs: the API is reached from inside the VPC alone.
NOBODY = "none"
CONTROL_PLANE_LOGS = ("api", "audit", "authenticator", "controllerManager", "scheduler")
# Local zones have longer names, and neither a control plane nor EFA; a region has letters to g at most.
_ZONE = re.compile(r"[a-z]{2}(-[a-z]+)+-\d[a-g]")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_VPC = re.compile(r"vpc-[0-9a-f]{8,17}")
_SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")
_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+")
_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/[A-Za-z0-9_+=,.@/-]+")
_MINOR = re.compile(r"1\.\d{2}")
# Two worker nodes with their pods, the system node, and what the control plane and endpoints take for themselves.
_SMALLEST_VPC, _LARGEST_VPC = 22, 16
_PRIVATE = [ipaddress.IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
_WIDEST_ENDPOINT = 8


def read_network(read: ConfigReader) -> NetworkSettings:
    cidr = read.network("vpcCidr", read.text("vpcCidr", required=True))
    if cidr and not _LARGEST_VPC <= ipaddress.ip_network(cidr).prefixlen <= _SMALLEST_VPC:
        read.problem("vpcCidr", cidr, f"must be between /{_LARGEST_VPC} and /{_SMALLEST_VPC}")
    if cidr and not any(ipaddress.IPv4Network(cidr).subnet_of(private) for private in _PRIVATE):
        read.problem("vpcCidr", cidr, "is not a private range (10/8, 172.16/12, 192.168/16)")
    vpc_id = read.matching("vpcId", _VPC, "the id of a VPC (vpc-...)")
    subnets = read.all_matching("vpcPrivateSubnets", _SUBNET, "the id of a subnet (subnet-...)")
    if bool(vpc_id) != bool(subnets) and not read.text("eksExistingCluster"):
        key, other = ("vpcPrivateSubnets", "vpcId") if vpc_id else ("vpcId", "vpcPrivateSubnets")
        read.problem(key, "", f"must be set with {other}: an existing network is named by both")
    zones = read.all_matching("vpcZones", _ZONE, "an availability zone like us-west-2a")
    if zones and len(set(zones)) < 2:
        read.problem("vpcZones", ", ".join(zones), "must be at least two zones: EKS wants its control plane in two")
    return NetworkSettings(
        cidr=cidr,
        zones=zones,
        nat=read.one_of("vpcNat", NAT),
        endpoints=tuple(read.one_among("vpcEndpoints", endpoint, ENDPOINTS) for endpoint in read.texts("vpcEndpoints")),
        vpc_id=vpc_id,
        private_subnets=subnets,
    )


def read_cluster(read: ConfigReader) -> ClusterSettings:
    existing = read.matching("eksExistingCluster", _CLUSTER, "the name of an EKS cluster")
    version = read.matching("eksVersion", _MINOR, "a Kubernetes version like 1.34", required=True)
    if version and _MINOR.fullmatch(version) and version not in versions.EKS:
        read.problem("eksVersion", version, f"is not one that add-ons are pinned for: {', '.join(versions.EKS)}")
    given = [text for text in read.texts("eksEndpointCidrs") if text != NOBODY]
    cidrs = tuple(filter(None, (read.network("eksEndpointCidrs", cidr) for cidr in given)))
    # Without a list EKS would open the endpoint to everybody.
    if not cidrs and not existing and NOBODY not in read.texts("eksEndpointCidrs"):
        what = (
            "must list who may reach the cluster's API (CIDRs): your own address is what "
            f"`curl https://checkip.amazonaws.com` prints, with /32; or {NOBODY}, where you are inside its network"
        )
        read.problem("eksEndpointCidrs", "", what)
    for cidr in cidrs:
        network = ipaddress.IPv4Network(cidr)
        if not network.is_global or network.is_multicast:
            what = "is no address of the internet, and EKS refuses it: take yours, as seen from outside, with /32"
            read.problem("eksEndpointCidrs", cidr, what)
        if network.prefixlen < _WIDEST_ENDPOINT:
            read.problem("eksEndpointCidrs", cidr, f"is wider than /{_WIDEST_ENDPOINT}; list the networks that need it")
    return ClusterSettings(
        existing=existing,
        version=version,
        endpoint_cidrs=cidrs,
        admins=read.all_matching("eksAdmins", _PRINCIPAL, "the ARN of an IAM role or user"),
        logs=tuple(read.one_among("eksLogs", log, CONTROL_PLANE_LOGS) for log in read.texts("eksLogs")),
        secrets_key=read.matching("eksSecretsKey", _KEY, "the ARN of a KMS key"),
        ebs_csi=read.boolean("eksEbsCsi"),
    )
