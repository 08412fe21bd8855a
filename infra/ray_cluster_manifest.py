"""PURE: the RayCluster with its pods, and the digest of what runs in them."""

import json
from collections.abc import Mapping
from typing import Any

from infra.instances import InstanceType
from infra.kubernetes_objects import TYPE_LABEL, ZONE_LABEL
from infra.metrics_objects import head_env
from infra.metrics_settings import GRAFANA_IN_BROWSER
from infra.ray_cluster_spec import (
    AGENT_PORT,
    DASHBOARD_PORT,
    GCS_PORT,
    GPU_NODE_LABEL,
    GPU_TOLERATION,
    HEAD_CONTAINER,
    HOST_LABEL,
    RESERVED_ENV,
    SECRET_KEY,
    STORAGE_MOUNT,
    TRAINER,
    WORKER_CONTAINER,
    WORKER_GROUP,
    RayClusterSpec,
    WorkerResources,
    worker_resources,
)
from workload.job_spec import digest_of

_GCS_HEALTH, _RAYLET_HEALTH = "/api/gcs_healthz", "/api/local_raylet_healthz"
_TERMINATION_SECONDS = 10
_START_TIMEOUT_SECONDS = 300


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
        **pod_basics(spec),
        "affinity": off_gpu_nodes(spec.instance),
        **_identity(spec),
        "containers": [
            {
                **_container(spec, HEAD_CONTAINER, [*_head_env(spec), *_graphs_env(spec)], _head_resources(spec)),
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
        expressions.append({"key": TYPE_LABEL, "operator": "NotIn", "values": [instance.name]})
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _worker_pod(spec: RayClusterSpec, worker: WorkerResources) -> dict[str, Any]:
    own_workers = {"matchLabels": {"ray.io/cluster": spec.name, "ray.io/group": WORKER_GROUP}}
    one_a_node = {"topologyKey": HOST_LABEL, "labelSelector": own_workers}
    affinity: dict[str, Any] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [one_a_node]}}
    if spec.efa_interfaces and not spec.zone:
        # EFA traffic does not leave a zone; the first worker chooses it.
        same_zone = {"topologyKey": ZONE_LABEL, "labelSelector": own_workers}
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [same_zone]}
    return {
        **pod_basics(spec),
        **placement(spec),
        **_identity(spec),
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


def pod_basics(spec: RayClusterSpec) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _TERMINATION_SECONDS,
    }
    if spec.pull_secret:
        pod["imagePullSecrets"] = [{"name": spec.pull_secret}]
    return pod


def _identity(spec: RayClusterSpec) -> dict[str, Any]:
    return {"serviceAccountName": spec.service_account} if spec.service_account else {}


def placement(spec: RayClusterSpec) -> dict[str, Any]:
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


def _graphs_env(spec: RayClusterSpec) -> list[dict[str, Any]]:
    """Of the dashboard alone, and so no part of the spec's digest: graphs are no reason to train again."""
    graphs = head_env(spec.metrics, in_browser=GRAFANA_IN_BROWSER)
    return [{"name": name, "value": value} for name, value in graphs.items() if name not in spec.env]


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
