"""The settings of the kubernetes platform: read, validated, typed and frozen."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pulumi

from infra import instances
from infra.config_reader import ConfigReader
from infra.instances import InstanceType
from infra.metrics_settings import MetricsSettings
from infra.metrics_settings_reader import read_metrics
from infra.ray_cluster_spec import RESERVED_ENV, STORAGE_MOUNT
from workload.errors import BadInputError
from workload.kubernetes_access import KubernetesAccess, is_kubeconfig_text

ADDON_MODES = ("auto", "install", "existing")
NAMESPACE_MODES = ("create", "existing")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_TAG, _DIGEST = r"(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?", r"(@sha256:[0-9a-f]{64})?"
_IMAGE = re.compile(rf"[a-z0-9][a-z0-9._:-]*(/[a-z0-9._-]+)*{_TAG}{_DIGEST}")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/(?!\.{1,2}(/|$))[A-Za-z0-9!_.*'()@=+-]+)*")
_FOLDER = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_LABEL = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_REPOSITORY = re.compile(r"(https?|oci)://\S+|[^\s:]+")


@dataclass(frozen=True, kw_only=True)
class AddonSettings:
    """One Helm chart. `repository` is a chart repository's URL, an oci:// prefix, or a folder that holds the chart."""

    mode: str
    repository: str


@dataclass(frozen=True, kw_only=True)
class StorageSettings:
    """Where checkpoints go, as the pods see it: in a bucket, or a folder inside a volume claim.

    `claim` names an existing claim; empty makes one of `storage_class` (empty: the cluster's default) and `size`, where
    `in_claim`.
    """

    path: str
    in_claim: bool
    claim: str
    storage_class: str
    size: str
    keep: bool

    @property
    def seen_by_pods(self) -> str:
        return f"{STORAGE_MOUNT}/{self.path}" if self.in_claim else self.path


@dataclass(frozen=True, kw_only=True)
class RaySettings:
    """The RayCluster. Quantities are Kubernetes quantities; an empty worker quantity is derived from the instance type.

    `trainers_per_node` counts ranks of a worker without GPUs and is not used where the instance type has GPUs.
    """

    image: str
    version: str
    pre_pull: bool
    head_cpu: str
    head_memory: str
    worker_cpu: str
    worker_memory: str
    shm_size: str
    tmp_size: str
    trainers_per_node: int
    env: Mapping[str, str]
    pull_secret: str


@dataclass(frozen=True, kw_only=True)
class KubernetesSettings:
    """The kubernetes platform: which cluster, what is installed there, and the Ray cluster on it.

    `instance_type` empty means workers without GPUs; `efa` false, nodes of a type with EFA that were made without it.
    `node_selector` picks the nodes of the workers. `ready_seconds` limits every wait; `unschedulable_seconds` is how
    long a pod may find no node.
    """

    access: KubernetesAccess
    cluster_id: str
    namespace: str
    namespace_mode: str
    nvidia_plugin: AddonSettings
    efa_plugin: AddonSettings
    kuberay: AddonSettings
    image_mirror: str
    instance_type: str
    efa: bool
    nodes: int
    zone: str
    node_selector: Mapping[str, str]
    ready_seconds: int
    unschedulable_seconds: int
    ray: RaySettings
    storage: StorageSettings
    hf_token: pulumi.Output[str] | None = field(repr=False, compare=False)
    metrics: MetricsSettings | None = None

    @property
    def instance(self) -> InstanceType | None:
        """What a worker node offers; None without GPUs."""
        if not self.instance_type:
            return None
        instance = instances.known(self.instance_type)
        return instance if self.efa else replace(instance, efa_interfaces=0)


def read_kubernetes(read: ConfigReader, *, eks: bool = False) -> KubernetesSettings:
    """Notes every value that cannot be used in `read.problems`. `eks`: the cluster is the eks platform's."""
    instance_type = read.text("gpuInstanceType")
    if instance_type:
        try:
            instances.known(instance_type)
        except BadInputError as error:
            read.problem("gpuInstanceType", instance_type, str(error))
    kubeconfig = read.text("kubeconfig")
    if is_kubeconfig_text(kubeconfig):
        read.problem("kubeconfig", "***", "is the content of a kubeconfig, which would be on record: give its path")
        kubeconfig = ""
    if eks:
        for key in ("kubeconfig", "kubeContext", "kubeClusterId"):
            if value := read.text(key):
                read.problem(key, value, "is not used on eks, where the cluster is made or eksExistingCluster names it")
    namespace = read.matching("kubeNamespace", _NAME, "a namespace (small letters, digits, -)", required=True)
    return KubernetesSettings(
        access=KubernetesAccess(kubeconfig=kubeconfig, context=read.text("kubeContext")),
        cluster_id=read.text("kubeClusterId"),
        namespace=namespace,
        namespace_mode=read.one_of("kubeNamespaceMode", NAMESPACE_MODES),
        nvidia_plugin=_addon(read, "NvidiaPlugin"),
        efa_plugin=_addon(read, "EfaPlugin"),
        kuberay=_addon(read, "KubeRay"),
        image_mirror=read.text("addonImageMirror").rstrip("/"),
        instance_type=instance_type,
        efa=read.boolean("gpuEfa"),
        nodes=read.integer("gpuNodes", at_least=0 if eks else 1, at_most=512),
        zone=read.text("gpuZone"),
        node_selector=_labels(read, "gpuNodeSelector"),
        ready_seconds=read.integer("kubeReadySeconds", at_least=10),
        unschedulable_seconds=read.integer("kubeUnschedulableSeconds", at_least=5),
        ray=_ray(read),
        storage=_storage(read, in_claim=not eks or read.text("eksStorage") != "bucket"),
        hf_token=read.secret_text("hfToken"),
        metrics=read_metrics(read, stack_namespace=namespace),
    )


def _addon(read: ConfigReader, name: str) -> AddonSettings:
    what = "a chart repository's URL, an oci:// address or a folder"
    return AddonSettings(
        mode=read.one_of(f"addon{name}", ADDON_MODES),
        repository=read.matching(f"addon{name}Repository", _REPOSITORY, what, required=True),
    )


def _ray(read: ConfigReader) -> RaySettings:
    return RaySettings(
        image=read.matching("rayImage", _IMAGE, "an image reference (registry/name:tag or @sha256:...)", required=True),
        version=read.matching("rayVersion", _VERSION, "a version like 2.58.0", required=True),
        pre_pull=read.boolean("rayPrePull"),
        head_cpu=_quantity(read, "rayHeadCpu", required=True),
        head_memory=_quantity(read, "rayHeadMemory", required=True),
        worker_cpu=_quantity(read, "rayWorkerCpu"),
        worker_memory=_quantity(read, "rayWorkerMemory"),
        shm_size=_quantity(read, "rayShmSize"),
        tmp_size=_quantity(read, "rayTmpSize", required=True),
        trainers_per_node=read.integer("rayTrainersPerNode", at_least=1, at_most=64),
        env=read.environment("rayEnv", reserved=RESERVED_ENV, by="the cluster itself"),
        pull_secret=read.matching("rayPullSecret", _NAME, "the name of a Secret"),
    )


def _storage(read: ConfigReader, *, in_claim: bool) -> StorageSettings:
    path = read.text("storagePath", required=True)
    s3 = path.startswith("s3://")
    parts = path.split("/")
    if not (_S3 if s3 else _FOLDER).fullmatch(path) or (not s3 and ("." in parts or ".." in parts)):
        read.problem("storagePath", path, "is neither s3://bucket/prefix nor a folder inside the volume claim")
    claim = read.matching("storageClaim", _NAME, "the name of a PersistentVolumeClaim")
    if s3 and claim:
        read.problem("storageClaim", claim, f"is not used beside storagePath {path}; keep one of the two")
    return StorageSettings(
        path=path,
        in_claim=in_claim and not s3,
        claim=claim,
        storage_class=read.matching("storageClass", _NAME, "the name of a StorageClass"),
        size=_quantity(read, "storageSize", required=True),
        keep=read.boolean("storageKeep"),
    )


def _quantity(read: ConfigReader, key: str, *, required: bool = False) -> str:
    return read.matching(key, _QUANTITY, "a Kubernetes quantity like 8, 500m or 16Gi", required=required)


def _labels(read: ConfigReader, key: str) -> dict[str, str]:
    labels = read.json_value(key, dict)
    for name, value in labels.items():
        if not _LABEL.fullmatch(name) or not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            read.problem(key, f"{name}: {value}", "is not a label and its text")
    return {name: str(value) for name, value in labels.items()}
