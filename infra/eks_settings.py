"""The settings of the eks platform, typed and frozen; `infra.eks_settings_reader` reads and validates them.

The Kubernetes half of the platform (add-ons, Ray, storage claim) is `KubernetesSettings`, read by the same keys as on
the kubernetes platform.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from infra.instances import InstanceType
from infra.kubernetes_settings import KubernetesSettings


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
    (UTC, 2026-12-01T18:00:00Z), the earlier of capacityUntil and ttlUntil; past it, or with no nodes, nothing is
    reserved and nothing targeted. `market` is on-demand, spot or capacity-block. `placement_group` is "" (none),
    "cluster" (one made here) or an existing one's name.
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
class GuardSettings:
    """What keeps a stack from costing more than was meant.

    `ttl_until`: when AWS itself takes the GPU nodes away (UTC), or "". `zero_after_job`: they go once no run is due.
    `max_hourly_usd`: a stack whose estimate is above it is refused.
    """

    ttl_until: str = ""
    zero_after_job: bool = False
    max_hourly_usd: float | None = None

    def ttl_over(self, *, now: datetime) -> bool:
        return bool(self.ttl_until) and now >= end_of(self.ttl_until)


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
    """The worker nodes. `existing_group` names a managed node group that is there: checked, not made.

    `fallback_zones` are for whoever moves the stack when `zone` has no capacity: the program itself never does.
    """

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
    fallback_zones: tuple[str, ...] = ()


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
    guards: GuardSettings = GuardSettings()

    @property
    def gpu_group(self) -> str:
        """The name of the GPU nodes' managed node group."""
        return self.gpu.existing_group or f"{self.name}-gpu"

    def without_gpu_nodes(self) -> "EksSettings":
        """As with gpuNodes 0."""
        return replace(self, gpu=replace(self.gpu, nodes=0), kubernetes=replace(self.kubernetes, nodes=0))

    @property
    def all_tags(self) -> dict[str, str]:
        return {**self.aws.default_tags, **self.tags}


def end_of(until: str) -> datetime:
    """The time of a `capacityUntil` or `ttlUntil`, which is UTC."""
    return datetime.strptime(until, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
