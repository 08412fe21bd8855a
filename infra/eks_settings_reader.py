"""Reading the settings of the eks platform: every value that cannot be used is noted before the first resource."""

import re

import pulumi

from infra import instances
from infra.config_reader import ConfigReader
from infra.eks_network_reader import read_cluster, read_network
from infra.eks_settings import (
    AwsSettings,
    CapacitySettings,
    EksSettings,
    EksStorageSettings,
    GpuNodesSettings,
    GuardSettings,
    SystemNodesSettings,
)
from infra.guards_reader import check_guards, read_guards, read_time
from infra.kubernetes_settings import KubernetesSettings, read_kubernetes
from workload.errors import BadInputError

MARKETS = ("on-demand", "spot", "capacity-block")
STORAGE = ("bucket", "fsx", "claim")
# What an explicit provider is given of the stack's aws:* settings; any other would be dropped in silence.
AWS_KEYS = ("region", "profile", "assumeRoles", "allowedAccountIds", "defaultTags", "skipCredentialsValidation")

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
# Local zones have longer names, and neither a control plane nor EFA; a region has letters to g at most.
_ZONE = re.compile(r"[a-z]{2}(-[a-z]+)+-\d[a-g]")
_STACK_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,38}[A-Za-z0-9]")
_RESERVATION = re.compile(r"cr-[0-9a-f]{8,17}")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[A-Za-z0-9_+=,.@/-]+")
_SECURITY_GROUP = re.compile(r"sg-[0-9a-f]{8,17}")
_AMI_RELEASE = re.compile(r"(\d\.\d{2})\.\d+-\d{8}")
# Of x86-64: the image has no other build. Graviton types have a g behind the generation (m7g, c8gn); g5g is one too.
_TYPE = re.compile(r"(?![a-z]+\d+g[a-z]*\.)[a-z0-9-]+\.[a-z0-9-]+")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_TAG_KEY = re.compile(r"(?!aws:)[A-Za-z0-9 _.:/=+@-]{1,128}")
_TAG_VALUE = re.compile(r"[A-Za-z0-9 _.:/=+@-]{0,256}")


def read_eks(read: ConfigReader) -> EksSettings:
    """Notes every value that cannot be used in `read.problems`."""
    kubernetes = read_kubernetes(read, eks=True)
    name = read.matching("eksName", _STACK_NAME, "a name of 2 to 40 letters, digits and -, letter first")
    name = name or f"ray-{pulumi.get_stack()}"
    if not _STACK_NAME.fullmatch(name):
        read.problem("eksName", "", f"must be set: the stack's name gives '{name}', which is no name for a cluster")
    gpu, guards = _gpu(read, kubernetes), read_guards(read)
    settings = EksSettings(
        name=name,
        tags=_tags(read, name),
        aws=_aws(read),
        capacity=_capacity(read, gpu, guards),
        guards=guards,
        network=read_network(read),
        cluster=read_cluster(read),
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
    check_guards(read, settings)
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


def _capacity(read: ConfigReader, gpu: GpuNodesSettings, guards: GuardSettings) -> CapacitySettings:
    given = read.text("capacity")
    held = bool(_RESERVATION.fullmatch(given))
    if not held and given not in ("reserve", "none"):
        read.problem("capacity", given, "is neither reserve, none nor the id of a reservation (cr-...)")
    market = read.one_of("gpuMarket", MARKETS)
    mode = "held" if held else given
    # Written alike, they sort by time: what reserves nodes goes no later than the nodes.
    until = min(filter(None, (read_time(read, "capacityUntil"), guards.ttl_until)), default="")
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
        fallback_zones=read.all_matching("gpuFallbackZones", _ZONE, "an availability zone like us-west-2a"),
        existing_group=existing,
        disk_gib=read.integer("gpuDiskGiB", at_least=150, at_most=16_384),
        disk_throughput=read.integer("gpuDiskThroughput", at_least=125, at_most=2000),
        disk_iops=read.integer("gpuDiskIops", at_least=3000, at_most=80_000),
        ami_release=_ami_release(read),
        security_groups=read.all_matching("gpuSecurityGroups", _SECURITY_GROUP, "the id of a security group (sg-...)"),
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
        fsx_throughput=read.one_integer("fsxThroughput", (125, 250, 500, 1000)),
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
