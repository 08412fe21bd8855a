"""PURE: the Kubernetes objects of a Ray cluster, from plain values, and the digest of what runs in its pods."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from infra.instances import InstanceType
from workload.errors import BadInputError
from workload.job_spec import digest_of

CLUSTER_NAME = "ray"
WORKER_GROUP = "gpu-workers"
HEAD_CONTAINER, WORKER_CONTAINER = "ray-head", "ray-worker"
STORAGE_MOUNT = "/mnt/ray-train"
GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
# Set by us on our nodes, by GPU feature discovery on others'; the NVIDIA chart's own affinity reads it too.
GPU_NODE_LABEL = "nvidia.com/gpu.present"
ZONE_LABEL, HOST_LABEL = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
TRAINER = "trainer"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
GPU_TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}

SECRET_KEY = "token"  # noqa: S105 - the key, not what it holds
# The cluster works through these, so they are not the user's to set; KubeRay sets RAY_ADDRESS.
RESERVED_ENV = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ADDRESS", "NVIDIA_VISIBLE_DEVICES")

GCS_PORT, DASHBOARD_PORT, AGENT_PORT = 6379, 8265, 52365
_GCS_HEALTH, _RAYLET_HEALTH = "/api/gcs_healthz", "/api/local_raylet_healthz"

# Of an instance's CPU and memory a worker pod gets this; the rest is for the kubelet and the system's pods.
# 40 of 48 CPUs and 160 of 192 GiB on g6.12xlarge; EKS keeps back far less on every type of the table.
_WORKER_SHARE = Fraction(5, 6)
_SHM_SHARE = Fraction(1, 4)
# Ray's object store lives in /dev/shm and would take all of it; NCCL and data loaders need theirs.
_OBJECT_STORE_SHARE = Fraction(1, 2)
_SMALLEST_OBJECT_STORE = 80 * 1024**2
_TERMINATION_SECONDS = 10
_START_TIMEOUT_SECONDS = 300

_UNITS = {"m": Fraction(1, 1000), "": Fraction(1)}
_UNITS |= {unit: Fraction(1000**power) for power, unit in enumerate("kMGT", start=1)}
_UNITS |= {f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGT", start=1)}


@dataclass(frozen=True, kw_only=True)
class RayClusterSpec:
    """What a Ray cluster is made of. `instance` None means workers without GPUs, of `trainers_per_node` ranks each.

    Quantities are Kubernetes quantities; an empty worker quantity is derived. `claim` names the volume claim mounted at
    STORAGE_MOUNT; empty mounts none. `hf_token` says that there is a Secret with one.
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


def spec_digest(spec: RayClusterSpec) -> str:
    """SHA-256 over what runs in the pods and on how many nodes; where they stand and what secrets hold is left out."""
    worker = worker_resources(spec)
    return digest_of(
        {
            "image": spec.image,
            "ray_version": spec.ray_version,
            "nodes": spec.nodes,
            "ranks_per_node": spec.ranks_per_node,
            "head": {"resources": _head_resources(spec), "env": _names_and_values(_head_env(spec))},
            "worker": {
                "resources": worker.quantities(),
                "shm": worker.shm,
                "env": _names_and_values(_worker_env(spec)),
                "start": _worker_start_params(spec, worker),
            },
            "tmp": spec.tmp_size,
            "storage": bool(spec.claim),
        }
    )


def _names_and_values(env: list[dict[str, Any]]) -> dict[str, Any]:
    return {variable["name"]: variable.get("value") for variable in env}


def ray_cluster(spec: RayClusterSpec) -> dict[str, Any]:
    """The RayCluster. What is in `headGroupSpec` and in the group's `template` is not followed by running pods."""
    worker = worker_resources(spec)
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": spec.name, "namespace": spec.namespace},
        "spec": {
            "rayVersion": spec.ray_version,
            "enableInTreeAutoscaling": False,
            "headGroupSpec": {
                "serviceType": "ClusterIP",
                "rayStartParams": {"dashboard-host": "0.0.0.0", "num-gpus": "0"},  # noqa: S104 - the pod's own address
                "template": {"spec": _head_pod(spec)},
            },
            "workerGroupSpecs": [
                {
                    "groupName": WORKER_GROUP,
                    "replicas": spec.nodes,
                    "minReplicas": spec.nodes,
                    "maxReplicas": spec.nodes,
                    "rayStartParams": _worker_start_params(spec, worker),
                    "template": {"spec": _worker_pod(spec, worker)},
                }
            ],
        },
    }


def _head_resources(spec: RayClusterSpec) -> dict[str, str]:
    return {"cpu": spec.head_cpu, "memory": spec.head_memory}


def _head_pod(spec: RayClusterSpec) -> dict[str, Any]:
    return {
        **_pod(spec),
        "affinity": off_gpu_nodes(spec.instance),
        "containers": [
            {
                **_container(spec, HEAD_CONTAINER, _head_env(spec), _head_resources(spec)),
                "ports": [
                    {"name": "gcs-server", "containerPort": GCS_PORT},
                    {"name": "dashboard", "containerPort": DASHBOARD_PORT},
                ],
                **_probes(ready=(_GCS_HEALTH, DASHBOARD_PORT), alive=(_RAYLET_HEALTH, AGENT_PORT)),
                "volumeMounts": _mounts(spec, shm=False),
            }
        ],
        "volumes": _volumes(spec, shm=None),
    }


def off_gpu_nodes(instance: InstanceType | None) -> dict[str, Any]:
    """The affinity of what must not take a place on GPU nodes, tainted or not."""
    expressions = [{"key": GPU_NODE_LABEL, "operator": "NotIn", "values": ["true"]}]
    if instance is not None:
        expressions.append({"key": INSTANCE_TYPE_LABEL, "operator": "NotIn", "values": [instance.name]})
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _worker_pod(spec: RayClusterSpec, worker: WorkerResources) -> dict[str, Any]:
    own_workers = {"matchLabels": {"ray.io/cluster": spec.name, "ray.io/group": WORKER_GROUP}}
    one_a_node = {"topologyKey": HOST_LABEL, "labelSelector": own_workers}
    affinity: dict[str, Any] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [one_a_node]}}
    if not spec.zone:
        # EFA traffic does not leave a zone; the first worker chooses it.
        same_zone = {"topologyKey": ZONE_LABEL, "labelSelector": own_workers}
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [same_zone]}
    return {
        **_pod(spec),
        **_placement(spec),
        "affinity": affinity,
        "containers": [
            {
                **_container(spec, WORKER_CONTAINER, _worker_env(spec), worker.quantities()),
                **_probes(ready=(_RAYLET_HEALTH, AGENT_PORT), alive=(_RAYLET_HEALTH, AGENT_PORT)),
                "volumeMounts": _mounts(spec, shm=True),
            }
        ],
        "volumes": _volumes(spec, shm=worker.shm),
    }


def _worker_start_params(spec: RayClusterSpec, worker: WorkerResources) -> dict[str, str]:
    """KubeRay pastes each value, as it is, behind `--name=` into a shell's command line."""
    params = {"num-gpus": str(worker.gpus), "object-store-memory": str(worker.object_store)}
    if not worker.gpus:
        params["resources"] = f"'{json.dumps({TRAINER: spec.trainers_per_node})}'"
    return params


def _pod(spec: RayClusterSpec) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _TERMINATION_SECONDS,
    }
    if spec.pull_secret:
        pod["imagePullSecrets"] = [{"name": spec.pull_secret}]
    return pod


def _placement(spec: RayClusterSpec) -> dict[str, Any]:
    """Of the pods that belong on the worker nodes."""
    selector = {**spec.node_selector, **({ZONE_LABEL: spec.zone} if spec.zone else {})}
    placement: dict[str, Any] = {"nodeSelector": selector} if selector else {}
    if spec.gpus:
        placement["tolerations"] = [GPU_TOLERATION]
    return placement


def _container(
    spec: RayClusterSpec, name: str, env: list[dict[str, Any]], resources: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "name": name,
        "image": spec.image,
        "env": env,
        "resources": {"requests": dict(resources), "limits": dict(resources)},
        "securityContext": {"allowPrivilegeEscalation": False},
    }


def _probes(*, ready: tuple[str, int], alive: tuple[str, int]) -> dict[str, Any]:
    """Asked by the kubelet over HTTP, so that no program of the image is needed: KubeRay's own probes call wget in the
    container, and are left out where a container has its own. Ray answers these paths without a token."""
    return {
        "readinessProbe": {
            "httpGet": {"path": ready[0], "port": ready[1]},
            "periodSeconds": 2,
            "timeoutSeconds": 5,
            "failureThreshold": 15,
        },
        # A node busy with training answers late; one that says nothing for five minutes is dead.
        "livenessProbe": {
            "httpGet": {"path": alive[0], "port": alive[1]},
            "initialDelaySeconds": 60,
            "periodSeconds": 10,
            "timeoutSeconds": 10,
            "failureThreshold": 30,
        },
    }


def _mounts(spec: RayClusterSpec, *, shm: bool) -> list[dict[str, Any]]:
    mounts = [{"name": "tmp", "mountPath": "/tmp/ray"}]  # noqa: S108 - where Ray writes
    if shm:
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108
    if spec.claim:
        mounts.append({"name": "storage", "mountPath": STORAGE_MOUNT})
    return mounts


def _volumes(spec: RayClusterSpec, *, shm: str | None) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {"sizeLimit": spec.tmp_size}}]
    if shm:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shm}})
    if spec.claim:
        volumes.append({"name": "storage", "persistentVolumeClaim": {"claimName": spec.claim}})
    return volumes


def _head_env(spec: RayClusterSpec) -> list[dict[str, Any]]:
    # The image asks for all GPUs; on a node that has none, the NVIDIA runtime's hook would fail.
    return _env(spec, {"NVIDIA_VISIBLE_DEVICES": "void"})


def _worker_env(spec: RayClusterSpec) -> list[dict[str, Any]]:
    if not spec.gpus:
        return _env(spec, {"NVIDIA_VISIBLE_DEVICES": "void"})
    transport = {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "INFO"}
    if spec.efa_interfaces:
        # Huge pages and fork (DataLoader workers) end in ENOMEM.
        transport |= {"FI_PROVIDER": "efa", "NCCL_NET_PLUGIN": "ofi", "FI_EFA_USE_HUGE_PAGE": "0"}
    if spec.instance and spec.instance.family in ("g5", "g6"):
        transport["NCCL_SHM_USE_CUDA_MEMCPY"] = "1"
    return _env(spec, transport)


def _env(spec: RayClusterSpec, own: Mapping[str, str]) -> list[dict[str, Any]]:
    """The user's variables win over ours, but for RESERVED_ENV."""
    users = {name: value for name, value in spec.env.items() if name not in RESERVED_ENV}
    values = {
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        # Ray's own 60 s are too few for a first import of torch from a cold disk.
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(_START_TIMEOUT_SECONDS),
        **own,
        **users,
    }
    secrets = {"RAY_AUTH_TOKEN": spec.token_secret}
    if spec.hf_token and "HF_TOKEN" not in users:
        secrets["HF_TOKEN"] = spec.hf_token_secret
    return [
        *(
            {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": SECRET_KEY}}}
            for name, secret in secrets.items()
        ),
        *({"name": name, "value": value} for name, value in values.items()),
    ]


def network_policy(spec: RayClusterSpec) -> dict[str, Any]:
    """Every port of the cluster's pods is for the cluster's pods alone; port-forwards and probes come from the node."""
    own_pods = {"matchLabels": {"ray.io/cluster": spec.name}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"{spec.name}-only-itself", "namespace": spec.namespace},
        "spec": {
            "podSelector": own_pods,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": own_pods}]}],
        },
    }


def volume_claim(spec: RayClusterSpec, *, storage_class: str, size: str) -> dict[str, Any]:
    """The claim `spec.claim`, written by every rank. An empty class takes the cluster's default."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": spec.claim, "namespace": spec.namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": size}},
            **({"storageClassName": storage_class} if storage_class else {}),
        },
    }


def image_pull(spec: RayClusterSpec) -> dict[str, Any]:
    """A DaemonSet that has every worker node pull the image as soon as it joins, and then only sleeps."""
    labels = {"app.kubernetes.io/name": f"{spec.name}-image-pull"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": f"{spec.name}-image-pull", "namespace": spec.namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    **_pod(spec),
                    **_placement(spec),
                    "terminationGracePeriodSeconds": 1,
                    "containers": [
                        {
                            "name": "image-pull",
                            "image": spec.image,
                            "command": ["/bin/bash", "-c", "exec sleep infinity"],
                            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
                            "resources": {
                                "requests": {"cpu": "1m", "memory": "8Mi"},
                                "limits": {"cpu": "100m", "memory": "64Mi"},
                            },
                            "securityContext": {"allowPrivilegeEscalation": False},
                        }
                    ],
                },
            },
        },
    }
