"""The settings of the eks platform: read, validated, typed and frozen.

The Kubernetes half of the platform (add-ons, Ray, storage claim) is `KubernetesSettings`, read by the same keys as on
the kubernetes platform.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pulumi

from infra import instances, versions
from infra.config_reader import ConfigReader
from infra.instances import InstanceType
from infra.kubernetes_settings import KubernetesSettings, read_kubernetes
from workload.errors import BadInputError

NAT = ("one", "per-zone", "none")
MARKETS = ("on-demand", "spot", "capacity-block")
STORAGE = ("bucket", "fsx", "claim")
ENDPOINTS = ("s3", "ecr")
# In eksEndpointCidrs: the API is reached from inside the VPC alone.
NOBODY = "none"
CONTROL_PLANE_LOGS = ("api", "audit", "authenticator", "controllerManager", "scheduler")
# What an explicit provider is given of the stack's aws:* settings; any other would be dropped in silence.
AWS_KEYS = ("region", "profile", "assumeRoles", "allowedAccountIds", "defaultTags", "skipCredentialsValidation")

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
# Local zones have longer names, and neither a control plane nor EFA; a region has letters to g at most.
_ZONE = re.compile(r"[a-z]{2}(-[a-z]+)+-\d[a-g]")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_STACK_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,38}[A-Za-z0-9]")
_VPC = re.compile(r"vpc-[0-9a-f]{8,17}")
_SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")
_RESERVATION = re.compile(r"cr-[0-9a-f]{8,17}")
_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+")
_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/[A-Za-z0-9_+=,.@/-]+")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[A-Za-z0-9_+=,.@/-]+")
_SECURITY_GROUP = re.compile(r"sg-[0-9a-f]{8,17}")
_AMI_RELEASE = re.compile(r"(\d\.\d{2})\.\d+-\d{8}")
_MINOR = re.compile(r"1\.\d{2}")
# Of x86-64: the image has no other build. Graviton types have a g behind the generation (m7g, c8gn); g5g is one too.
_TYPE = re.compile(r"(?![a-z]+\d+g[a-z]*\.)[a-z0-9-]+\.[a-z0-9-]+")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_TAG_KEY = re.compile(r"(?!aws:)[A-Za-z0-9 _.:/=+@-]{1,128}")
_TAG_VALUE = re.compile(r"[A-Za-z0-9 _.:/=+@-]{0,256}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")
# Two worker nodes with their pods, the system node, and what the control plane and endpoints take for themselves.
_SMALLEST_VPC, _LARGEST_VPC = 22, 16
_PRIVATE = [ipaddress.IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
_WIDEST_ENDPOINT = 8


@dataclass(frozen=True, kw_only=True)
class AwsSettings:
    """Where and as whom. `assume_roles`, `allowed_account_ids` and `default_tags` are Pulumi's own aws:* settings."""

    region: str
    profile: str
    assume_roles: tuple[str, ...]
    allowed_account_ids: tuple[str, ...]
    default_tags: Mapping[str, str]
    skip_credentials_validation: bool


@dataclass(frozen=True, kw_only=True)
class CapacitySettings:
    """How GPU nodes get their capacity.

    `mode` is reserve, none or held (then `reservation` is its id). `until` is the fixed end of a reservation made here
    (UTC, 2026-12-01T18:00:00Z); past it, or with no nodes, nothing is reserved and nothing targeted. `market` is
    on-demand, spot or capacity-block. `placement_group` is "" (none), "cluster" (one made here) or an existing one's
    name.
    """

    mode: str
    reservation: str
    until: str
    market: str
    placement_group: str

    def reserves(self, *, nodes: int, now: datetime) -> bool:
        """Whether a reservation is to be there now."""
        return self.mode == "reserve" and nodes > 0 and bool(self.until) and now < end_of(self.until)

    def ended(self, *, now: datetime) -> bool:
        """Whether a reservation made here is past its end."""
        return self.mode == "reserve" and bool(self.until) and now >= end_of(self.until)

    def targets(self, *, nodes: int, now: datetime) -> bool:
        """Whether the GPU nodes are launched into a reservation."""
        return self.reserves(nodes=nodes, now=now) or (self.mode == "held" and nodes > 0)


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """A VPC made here over `zones` (empty: chosen), or an existing one: `vpc_id` with `private_subnets`.

    Beside an existing cluster `private_subnets` alone: those for the nodes.
    """

    cidr: str
    zones: tuple[str, ...]
    nat: str
    endpoints: tuple[str, ...]
    vpc_id: str
    private_subnets: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """The EKS cluster: `existing` names one that is there, and then nothing else here is used but the endpoint."""

    existing: str
    version: str
    endpoint_cidrs: tuple[str, ...]
    admins: tuple[str, ...]
    logs: tuple[str, ...]
    secrets_key: str
    ebs_csi: bool


@dataclass(frozen=True, kw_only=True)
class SystemNodesSettings:
    """The nodes of KubeRay, the Ray head and kube-system."""

    instance_type: str
    nodes: int
    disk_gib: int


@dataclass(frozen=True, kw_only=True)
class GpuNodesSettings:
    """The worker nodes. `existing_group` names a managed node group that is there: checked, not made."""

    instance: InstanceType
    nodes: int
    zone: str
    existing_group: str
    disk_gib: int
    disk_throughput: int
    disk_iops: int
    ami_release: str
    security_groups: tuple[str, ...]
    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class EksStorageSettings:
    """Where checkpoints go: a bucket, a file system of FSx for Lustre, or a claim as on the kubernetes platform.

    `path` is a folder in any of them, or an s3:// URI of a bucket that is there.
    """

    kind: str
    path: str
    expire_days: int
    keep: bool
    fsx_gib: int
    fsx_throughput: int


@dataclass(frozen=True, kw_only=True)
class EksSettings:
    """The eks platform. `name` is the cluster's and the prefix of everything else; `tags` are on everything."""

    name: str
    tags: Mapping[str, str]
    aws: AwsSettings
    capacity: CapacitySettings
    network: NetworkSettings
    cluster: ClusterSettings
    system: SystemNodesSettings
    gpu: GpuNodesSettings
    storage: EksStorageSettings
    kubernetes: KubernetesSettings

    @property
    def gpu_group(self) -> str:
        """The name of the GPU nodes' managed node group."""
        return self.gpu.existing_group or f"{self.name}-gpu"

    @property
    def all_tags(self) -> dict[str, str]:
        return {**self.aws.default_tags, **self.tags}


def end_of(until: str) -> datetime:
    """The time of a `capacityUntil`, which is UTC."""
    return datetime.strptime(until, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def read_eks(read: ConfigReader) -> EksSettings:
    """Notes every value that cannot be used in `read.problems`."""
    kubernetes = read_kubernetes(read, eks=True)
    name = read.matching("eksName", _STACK_NAME, "a name of 2 to 40 letters, digits and -, letter first")
    name = name or f"ray-{pulumi.get_stack()}"
    if not _STACK_NAME.fullmatch(name):
        read.problem("eksName", "", f"must be set: the stack's name gives '{name}', which is no name for a cluster")
    gpu = _gpu(read, kubernetes)
    settings = EksSettings(
        name=name,
        tags=_tags(read, name),
        aws=_aws(read),
        capacity=_capacity(read, gpu),
        network=_network(read),
        cluster=_cluster(read),
        system=SystemNodesSettings(
            instance_type=read.matching("systemInstanceType", _TYPE, "an x86-64 EC2 instance type", required=True),
            nodes=read.integer("systemNodes", at_least=1, at_most=20),
            disk_gib=read.integer("systemDiskGiB", at_least=100, at_most=16_384),
        ),
        gpu=gpu,
        storage=_storage(read),
        kubernetes=kubernetes,
    )
    _check_together(read, settings)
    return settings


def _tags(read: ConfigReader, name: str) -> dict[str, str]:
    tags = read.json_value("tags", dict)
    for key, value in tags.items():
        if not _TAG_KEY.fullmatch(key) or not isinstance(value, str) or not _TAG_VALUE.fullmatch(value):
            read.problem("tags", f"{key}: {value}", "is not a tag's key and its text")
    ours = {"ray-train-efa/stack": pulumi.get_stack(), "ray-train-efa/name": name}
    return {**{key: str(value) for key, value in tags.items()}, **ours}


def _aws(read: ConfigReader) -> AwsSettings:
    config = pulumi.Config("aws")
    for name in sorted(pulumi.runtime.config.CONFIG.get()):
        namespace, _, key = name.partition(":")
        if namespace == "aws" and key not in AWS_KEYS:
            read.foreign_problem(name, f"is not used by this program, which knows aws: {', '.join(AWS_KEYS)}")
    region = config.get("region") or ""
    if not _REGION.fullmatch(region):
        read.foreign_problem(
            "aws:region", f"'{region}' is not a region like us-west-2: pulumi config set aws:region ..."
        )
    roles = config.get_object("assumeRoles") or []
    arns = tuple(str(role.get("roleArn", "")) if isinstance(role, dict) else "" for role in roles)
    # The kubeconfig's user signs in by the AWS CLI, which takes no external id and no session's name.
    alone = all(isinstance(role, dict) and set(role) == {"roleArn"} for role in roles)
    if len(arns) > 1 or not alone or any(not _ROLE.fullmatch(arn) for arn in arns):
        what = "must be a list of one {roleArn: arn:aws:iam::...:role/...}, and nothing besides; a profile can do more"
        read.foreign_problem("aws:assumeRoles", what)
    tags = config.get_object("defaultTags") or {}
    return AwsSettings(
        region=region,
        profile=config.get("profile") or "",
        assume_roles=arns,
        allowed_account_ids=tuple(str(account) for account in config.get_object("allowedAccountIds") or []),
        default_tags={str(key): str(value) for key, value in (tags.get("tags") or {}).items()},
        skip_credentials_validation=config.get_bool("skipCredentialsValidation") or False,
    )


def _capacity(read: ConfigReader, gpu: GpuNodesSettings) -> CapacitySettings:
    given = read.text("capacity")
    held = bool(_RESERVATION.fullmatch(given))
    if not held and given not in ("reserve", "none"):
        read.problem("capacity", given, "is neither reserve, none nor the id of a reservation (cr-...)")
    market = read.one_of("gpuMarket", MARKETS)
    mode = "held" if held else given
    until = read.matching("capacityUntil", _TIME, "a time in UTC like 2026-12-01T18:00:00Z")
    if until and _TIME.fullmatch(until):
        try:
            end_of(until)
        except ValueError:
            read.problem("capacityUntil", until, "is not a time in UTC like 2026-12-01T18:00:00Z")
            until = ""
    if mode == "reserve" and gpu.nodes and not gpu.existing_group:
        if market == "spot":
            read.problem("capacity", given, "is not for gpuMarket spot, which cannot be reserved; set capacity: none")
        elif market == "capacity-block":
            read.problem("capacity", given, "cannot buy a capacity block; buy one and set capacity to its id (cr-...)")
        elif not until:
            what = (
                "must say when the reservation ends at the latest (UTC, like 2026-12-01T18:00:00Z): it bills until then"
            )
            read.problem("capacityUntil", "", what)
    if market == "capacity-block" and mode == "none":
        read.problem("capacity", given, "must be the id of the capacity block (cr-...) with gpuMarket capacity-block")
    if held and read.text("gpuPlacementGroup") == "cluster":
        what = f"is made here, and reservation {given} was made before it: name the group it was made in, or none"
        read.problem("gpuPlacementGroup", "cluster", what)
    if market == "spot" and mode == "held":
        read.problem("capacity", given, "is a reservation, which gpuMarket spot cannot be launched into")
    return CapacitySettings(
        mode=mode,
        reservation=given if held else "",
        until=until,
        market=market,
        placement_group=read.matching("gpuPlacementGroup", _GROUP, "empty, cluster, or a placement group's name"),
    )


def _network(read: ConfigReader) -> NetworkSettings:
    cidr = _cidr(read, "vpcCidr", read.text("vpcCidr", required=True))
    if cidr and not _LARGEST_VPC <= ipaddress.ip_network(cidr).prefixlen <= _SMALLEST_VPC:
        read.problem("vpcCidr", cidr, f"must be between /{_LARGEST_VPC} and /{_SMALLEST_VPC}")
    if cidr and not any(ipaddress.IPv4Network(cidr).subnet_of(private) for private in _PRIVATE):
        read.problem("vpcCidr", cidr, "is not a private range (10/8, 172.16/12, 192.168/16)")
    vpc_id = read.matching("vpcId", _VPC, "the id of a VPC (vpc-...)")
    subnets = _matching_all(read, "vpcPrivateSubnets", _SUBNET, "the id of a subnet (subnet-...)")
    if bool(vpc_id) != bool(subnets) and not read.text("eksExistingCluster"):
        key, other = ("vpcPrivateSubnets", "vpcId") if vpc_id else ("vpcId", "vpcPrivateSubnets")
        read.problem(key, "", f"must be set with {other}: an existing network is named by both")
    zones = _matching_all(read, "vpcZones", _ZONE, "an availability zone like us-west-2a")
    if zones and len(set(zones)) < 2:
        read.problem("vpcZones", ", ".join(zones), "must be at least two zones: EKS wants its control plane in two")
    return NetworkSettings(
        cidr=cidr,
        zones=zones,
        nat=read.one_of("vpcNat", NAT),
        endpoints=tuple(
            read.one_among("vpcEndpoints", endpoint, ENDPOINTS) for endpoint in _texts(read, "vpcEndpoints")
        ),
        vpc_id=vpc_id,
        private_subnets=subnets,
    )


def _cluster(read: ConfigReader) -> ClusterSettings:
    existing = read.matching("eksExistingCluster", _CLUSTER, "the name of an EKS cluster")
    version = read.matching("eksVersion", _MINOR, "a Kubernetes version like 1.34", required=True)
    if version and _MINOR.fullmatch(version) and version not in versions.EKS:
        read.problem("eksVersion", version, f"is not one that add-ons are pinned for: {', '.join(versions.EKS)}")
    given = [text for text in _texts(read, "eksEndpointCidrs") if text != NOBODY]
    cidrs = tuple(filter(None, (_cidr(read, "eksEndpointCidrs", cidr) for cidr in given)))
    # Without a list EKS would open the endpoint to everybody.
    if not cidrs and not existing and NOBODY not in _texts(read, "eksEndpointCidrs"):
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
        admins=_matching_all(read, "eksAdmins", _PRINCIPAL, "the ARN of an IAM role or user"),
        logs=tuple(read.one_among("eksLogs", log, CONTROL_PLANE_LOGS) for log in _texts(read, "eksLogs")),
        secrets_key=read.matching("eksSecretsKey", _KEY, "the ARN of a KMS key"),
        ebs_csi=read.boolean("eksEbsCsi"),
    )


def _gpu(read: ConfigReader, kubernetes: KubernetesSettings) -> GpuNodesSettings:
    try:
        instance = instances.known(kubernetes.instance_type)
    except BadInputError:
        if not kubernetes.instance_type:
            read.problem("gpuInstanceType", "", "must be set on eks: the GPU nodes are made of it")
        instance = instances.known("g6.12xlarge")
    zone = read.matching("gpuZone", _ZONE, "an availability zone like us-west-2a")
    existing = read.matching("gpuExistingGroup", _GROUP, "the name of a managed node group")
    if not zone and not existing:
        what = "must be set on eks: EFA does not leave a zone, and another one later would replace the nodes"
        read.problem("gpuZone", "", what)
    return GpuNodesSettings(
        instance=instance if kubernetes.efa else kubernetes.instance or instance,
        nodes=kubernetes.nodes,
        zone=zone,
        existing_group=existing,
        disk_gib=read.integer("gpuDiskGiB", at_least=150, at_most=16_384),
        disk_throughput=read.integer("gpuDiskThroughput", at_least=125, at_most=2000),
        disk_iops=read.integer("gpuDiskIops", at_least=3000, at_most=80_000),
        ami_release=_ami_release(read),
        security_groups=_matching_all(
            read, "gpuSecurityGroups", _SECURITY_GROUP, "the id of a security group (sg-...)"
        ),
        labels=kubernetes.node_selector,
    )


def _ami_release(read: ConfigReader) -> str:
    release, version = read.text("gpuAmiRelease"), read.text("eksVersion")
    found = _AMI_RELEASE.fullmatch(release)
    if release and (found is None or (found[1] != version and not read.text("eksExistingCluster"))):
        read.problem("gpuAmiRelease", release, f"is not a release of eksVersion {version}, like {version}.2-20251120")
    return release


def _storage(read: ConfigReader) -> EksStorageSettings:
    kind = read.one_of("eksStorage", STORAGE)
    gib = read.integer("fsxGiB", at_least=1200)
    if gib != 1200 and gib % 2400:
        read.problem("fsxGiB", gib, "must be 1200 or a multiple of 2400")
    path = read.text("storagePath")
    if kind != "bucket" and path.startswith("s3://"):
        read.problem("storagePath", path, f"is a bucket, and eksStorage is {kind}")
    return EksStorageSettings(
        kind=kind,
        path=path,
        expire_days=read.integer("storageExpireDays", at_least=0),
        keep=read.boolean("storageKeep"),
        fsx_gib=gib,
        fsx_throughput=_one_integer(read, "fsxThroughput", (125, 250, 500, 1000)),
    )


def _check_together(read: ConfigReader, settings: EksSettings) -> None:
    gpu, cluster, network, capacity = settings.gpu, settings.cluster, settings.network, settings.capacity
    if network.zones and gpu.zone and gpu.zone not in network.zones:
        read.problem("gpuZone", gpu.zone, f"is not among vpcZones {', '.join(network.zones)}")
    if gpu.zone and settings.aws.region and not gpu.zone.startswith(settings.aws.region):
        read.problem("gpuZone", gpu.zone, f"is not a zone of aws:region {settings.aws.region}")
    for zone in network.zones:
        if settings.aws.region and not zone.startswith(settings.aws.region):
            read.problem("vpcZones", zone, f"is not a zone of aws:region {settings.aws.region}")
    if cluster.existing and network.vpc_id:
        read.problem("vpcId", network.vpc_id, f"is not used: eksExistingCluster {cluster.existing} has its own network")
    if gpu.existing_group and not cluster.existing:
        read.problem("gpuExistingGroup", gpu.existing_group, "belongs to a cluster: name it in eksExistingCluster")
    if gpu.existing_group and capacity.mode != "none":
        read.problem("capacity", capacity.mode, f"is not for gpuExistingGroup {gpu.existing_group}: set capacity: none")
    storage, ray_storage = settings.storage, settings.kubernetes.storage
    if storage.kind == "claim" and not (ray_storage.claim or ray_storage.storage_class):
        what = (
            "needs storageClass or storageClaim of a file system that many nodes write (EFS): a volume of EBS is one's"
        )
        read.problem("eksStorage", storage.kind, what)
    if storage.kind == "fsx" and storage.keep and not cluster.existing:
        what = "would keep a file system whose security group holds on to a cluster that goes: set it to false"
        read.problem("storageKeep", "true", what)
    if gpu.disk_iops > 500 * gpu.disk_gib:
        read.problem("gpuDiskIops", gpu.disk_iops, f"is more than 500 for each GiB of gpuDiskGiB {gpu.disk_gib}")
    if gpu.disk_throughput * 4 > gpu.disk_iops:
        read.problem("gpuDiskThroughput", gpu.disk_throughput, f"is more than a quarter of gpuDiskIops {gpu.disk_iops}")
    if network.nat == "none" and not network.vpc_id and not cluster.existing and "ecr" not in network.endpoints:
        what = "leaves nodes without a way to any image: add ecr and s3 to vpcEndpoints, or take one NAT gateway"
        read.problem("vpcNat", network.nat, what)
    if network.nat == "none" and not network.vpc_id and not cluster.existing:
        # ECR's endpoints serve private repositories alone.
        if ".dkr.ecr." not in settings.kubernetes.ray.image:
            read.problem(
                "rayImage", settings.kubernetes.ray.image, "is not in a private ECR, the only one with vpcNat none"
            )
        if ".dkr.ecr." not in settings.kubernetes.image_mirror:
            what = "must be a private ECR that has the add-ons' images, the only one reached with vpcNat none"
            read.problem("addonImageMirror", settings.kubernetes.image_mirror, what)
    if gpu.security_groups and not cluster.existing and not network.vpc_id:
        what = "belong to a network that is there: name it in vpcId or eksExistingCluster"
        read.problem("gpuSecurityGroups", ", ".join(gpu.security_groups), what)
    if network.zones and (network.vpc_id or cluster.existing):
        other = "vpcId" if network.vpc_id else "eksExistingCluster"
        read.problem(
            "vpcZones", ", ".join(network.zones), f"is not used beside {other}, whose subnets have their zones"
        )


def _texts(read: ConfigReader, key: str) -> list[str]:
    return [str(value).strip() for value in read.json_value(key, list)]


def _matching_all(read: ConfigReader, key: str, pattern: re.Pattern[str], what: str) -> tuple[str, ...]:
    values = _texts(read, key)
    for value in values:
        if not pattern.fullmatch(value):
            read.problem(key, value, f"is not {what}")
    return tuple(values)


def _one_integer(read: ConfigReader, key: str, allowed: tuple[int, ...]) -> int:
    value = read.one_of(key, [str(number) for number in allowed])
    return int(value) if value.isdecimal() else allowed[0]


def _cidr(read: ConfigReader, key: str, text: str) -> str:
    """The text of an IPv4 network, or empty where it is none."""
    try:
        return str(ipaddress.IPv4Network(text))
    except ValueError:
        read.problem(key, text, "is not an IPv4 network like 10.20.0.0/16 (no bits set behind the prefix)")
        return ""
