"""PURE: what a Ray cluster on Kubernetes is made of, and what its pods ask for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from infra.instances import InstanceType
from infra.metrics_settings import MetricsSettings
from workload.errors import BadInputError

CLUSTER_NAME = "ray"
# Of the claim made here.
CLAIM_NAME = f"{CLUSTER_NAME}-storage"
WORKER_GROUP = "gpu-workers"
HEAD_CONTAINER, WORKER_CONTAINER = "ray-head", "ray-worker"
STORAGE_MOUNT = "/mnt/ray-train"
# Of the Ray pods where a cloud gives pods an identity by it.
SERVICE_ACCOUNT = CLUSTER_NAME
# On the namespace: whose it is.
STACK_LABEL = "ray-train-efa/stack"
GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
# Set by us on our nodes, by GPU feature discovery on others'; the NVIDIA chart's own affinity reads it too.
GPU_NODE_LABEL = "nvidia.com/gpu.present"
HOST_LABEL = "kubernetes.io/hostname"
TRAINER = "trainer"
GPU_TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}

SECRET_KEY = "token"  # noqa: S105 - the key, not what it holds
# The cluster works through these, so they are not the user's to set; KubeRay sets RAY_ADDRESS.
RESERVED_ENV = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ADDRESS", "NVIDIA_VISIBLE_DEVICES")

GCS_PORT, DASHBOARD_PORT, AGENT_PORT = 6379, 8265, 52365
# Where KubeRay has every Ray node export its metrics.
METRICS_PORT = 8080

# Of an instance's CPU and memory a worker pod gets this; the rest is for the kubelet and the system's pods.
# 40 of 48 CPUs and 160 of 192 GiB on g6.12xlarge; EKS keeps back far less on every type of the table.
_WORKER_SHARE = Fraction(5, 6)
_SHM_SHARE = Fraction(1, 4)
# Ray's object store lives in /dev/shm and would take all of it; NCCL and data loaders need theirs.
_OBJECT_STORE_SHARE = Fraction(1, 2)
_SMALLEST_OBJECT_STORE = 80 * 1024**2

_UNITS = {"m": Fraction(1, 1000), "": Fraction(1)}
_UNITS |= {unit: Fraction(1000**power) for power, unit in enumerate("kMGT", start=1)}
_UNITS |= {f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGT", start=1)}


@dataclass(frozen=True, kw_only=True)
class RayClusterSpec:
    """What a Ray cluster is made of. `instance` None means workers without GPUs, of `trainers_per_node` ranks each.

    Quantities are Kubernetes quantities; an empty worker quantity is derived. `claim` names the volume claim mounted at
    STORAGE_MOUNT; empty mounts none. `hf_token` says that there is a Secret with one. `service_account` empty takes the
    namespace's default one. `metrics`: who may scrape the pods, and where the dashboard finds its graphs.
    """

    namespace: str
    image: str
    ray_version: str
    instance: InstanceType | None
    nodes: int
    zone: str
    node_selector: Mapping[str, str]
    head_cpu: str
    head_memory: str
    worker_cpu: str
    worker_memory: str
    shm_size: str
    tmp_size: str
    trainers_per_node: int
    env: Mapping[str, str]
    pull_secret: str = ""
    claim: str = ""
    hf_token: bool = False
    service_account: str = ""
    metrics: MetricsSettings | None = None
    name: str = CLUSTER_NAME

    @property
    def gpus(self) -> int:
        return self.instance.gpus if self.instance else 0

    @property
    def efa_interfaces(self) -> int:
        return self.instance.efa_interfaces if self.instance else 0

    @property
    def ranks_per_node(self) -> int:
        return self.gpus or self.trainers_per_node

    @property
    def worker_resource(self) -> str:
        """The Ray resource that one rank takes."""
        return "GPU" if self.gpus else TRAINER

    @property
    def token_secret(self) -> str:
        return f"{self.name}-auth-token"

    @property
    def hf_token_secret(self) -> str:
        return f"{self.name}-hf-token"


@dataclass(frozen=True, kw_only=True)
class WorkerResources:
    """What one worker pod asks for and is limited to; `object_store` in bytes."""

    cpu: str
    memory: str
    shm: str
    object_store: int
    gpus: int
    efa_interfaces: int

    def quantities(self) -> dict[str, str]:
        """As Kubernetes takes them; a device of which there is none is absent."""
        devices = {GPU: self.gpus, EFA: self.efa_interfaces}
        return {
            "cpu": self.cpu,
            "memory": self.memory,
            **{name: str(count) for name, count in devices.items() if count},
        }


def amount(quantity: str) -> Fraction:
    """A Kubernetes quantity's number (bytes, CPUs). Raises BadInputError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?", quantity)
    if not match:
        raise BadInputError(f"'{quantity}' is not a Kubernetes quantity like 8, 500m or 16Gi")
    return Fraction(match[1]) * _UNITS[match[2] or ""]


def worker_resources(spec: RayClusterSpec) -> WorkerResources:
    """Raises BadInputError where a quantity is neither set nor can be derived, or is more than the instance has."""
    cpu, memory = spec.worker_cpu, spec.worker_memory
    if spec.instance is not None:
        cpu = cpu or str(int(spec.instance.vcpus * _WORKER_SHARE))
        memory = memory or f"{int(spec.instance.memory_gib * _WORKER_SHARE)}Gi"
        _fits("rayWorkerCpu", cpu, spec.instance.vcpus, f"{spec.instance.name}'s {spec.instance.vcpus} vCPUs")
        gib = spec.instance.memory_gib
        _fits("rayWorkerMemory", memory, gib * 1024**3, f"{spec.instance.name}'s {gib} GiB")
    for setting, value in (("rayWorkerCpu", cpu), ("rayWorkerMemory", memory)):
        if not value:
            raise BadInputError(
                f"{setting} is empty, and so is gpuInstanceType, from which it would be derived: set it"
            )
    shm = spec.shm_size or f"{int(amount(memory) * _SHM_SHARE) // 1024**2}Mi"
    if amount(shm) >= amount(memory):
        raise BadInputError(
            f"rayShmSize {shm} counts as memory of the worker, which has {memory}: set less, or more memory"
        )
    return WorkerResources(
        cpu=cpu,
        memory=memory,
        shm=shm,
        object_store=max(int(amount(shm) * _OBJECT_STORE_SHARE), _SMALLEST_OBJECT_STORE),
        gpus=spec.gpus,
        efa_interfaces=spec.efa_interfaces,
    )


def _fits(setting: str, quantity: str, limit: int, what: str) -> None:
    if amount(quantity) > limit:
        raise BadInputError(f"{setting} {quantity} is more than {what}: set less, or leave it empty")
