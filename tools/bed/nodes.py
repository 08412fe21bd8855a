"""The bed's nodes, shaped like EC2 instances, as Node manifests."""

import datetime
import json
from dataclasses import dataclass, field
from typing import Any

from tools.bed.control_plane import HEART_BEAT_LABEL, NODE_LABEL

GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
# The bed's copy of what a device plugin would find; the pod agent reads it.
DEVICES_ANNOTATION = "bed.ray-train-efa/devices"
ZONE = "us-east-1a"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """An instance type as a node reports it. `memory_gib` is the instance's own, without what the system keeps."""

    cpus: int
    memory_gib: int
    gpus: int = 0
    efa: int = 0


SHAPES = {
    "m7i.xlarge": Shape(cpus=4, memory_gib=16),
    "m7i.8xlarge": Shape(cpus=32, memory_gib=128),
    "g6.8xlarge": Shape(cpus=32, memory_gib=128, gpus=1, efa=1),
    "g6.12xlarge": Shape(cpus=48, memory_gib=192, gpus=4, efa=1),
    "p5.48xlarge": Shape(cpus=192, memory_gib=2048, gpus=8, efa=32),
}


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """One node. `labels` and `taints` are added to those of its kind; a label set to "" is left out.

    `given_shape` is for an instance type that is not in SHAPES.
    """

    name: str
    instance_type: str
    zone: str = ZONE
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[dict[str, str], ...] | None = None
    devices: dict[str, int] | None = None
    provider_id: str = ""
    given_shape: Shape | None = None

    @property
    def shape(self) -> Shape:
        return self.given_shape or SHAPES[self.instance_type]


def system_node(name: str = "system-1") -> NodeSpec:
    return NodeSpec(name=name, instance_type="m7i.xlarge")


def gpu_nodes(count: int, instance_type: str = "g6.8xlarge", *, first: int = 1) -> tuple[NodeSpec, ...]:
    return tuple(NodeSpec(name=f"gpu-{n}", instance_type=instance_type) for n in range(first, first + count))


DEFAULT_NODES = (system_node(), *gpu_nodes(2))


def manifest(node: NodeSpec, *, agent_port: int, devices_published: bool, kubelet_version: str) -> dict[str, Any]:
    """The Node as a kubelet registers it, Ready from the start, with or without its devices in allocatable."""
    shape = node.shape
    found = {GPU: shape.gpus, EFA: shape.efa} if node.devices is None else node.devices
    devices = {name: count for name, count in found.items() if count}
    has_gpus = shape.gpus > 0
    labels = {
        NODE_LABEL: "true",
        HEART_BEAT_LABEL: "on",
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": node.instance_type,
        "topology.kubernetes.io/region": node.zone[:-1],
        "topology.kubernetes.io/zone": node.zone,
        **({"role": "gpu-worker", "nvidia.com/gpu.present": "true"} if has_gpus else {}),
        **node.labels,
    }
    taints = ({"key": GPU, "value": "present", "effect": "NoSchedule"},) if has_gpus else ()
    published = {name: str(count) for name, count in devices.items()} if devices_published else {}
    capacity = {"cpu": str(shape.cpus), "memory": f"{shape.memory_gib}Gi", "ephemeral-storage": "200Gi", "pods": "110"}
    # EKS keeps back some CPU and memory for the system: less than a core, and a few per cent.
    kept = {"cpu": f"{shape.cpus * 1000 - 100}m", "memory": f"{int(shape.memory_gib * 1024 * 0.96)}Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {name: value for name, value in labels.items() if value},
            "annotations": {DEVICES_ANNOTATION: json.dumps(devices)},
        },
        "spec": {
            "providerID": node.provider_id or f"bed:///{node.zone}/{node.name}",
            "taints": list(taints if node.taints is None else node.taints),
        },
        "status": {
            "capacity": {**capacity, **published},
            "allocatable": {**capacity, **kept, **published},
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": node.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": agent_port}},
            "conditions": _conditions(),
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "bed://1.0.0",
                "kernelVersion": "6.12.0",
                "kubeProxyVersion": "",
                "kubeletVersion": f"v{kubelet_version}",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "Amazon Linux 2023",
                "systemUUID": "",
            },
        },
    }


def _conditions() -> list[dict[str, str]]:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kubelet = {"lastHeartbeatTime": now, "lastTransitionTime": now, "message": "a node of the test bed"}
    pressures = [
        {"type": f"{what}Pressure", "status": "False", "reason": f"KubeletHas{enough}", **kubelet}
        for what, enough in (("Memory", "SufficientMemory"), ("Disk", "NoDiskPressure"), ("PID", "SufficientPID"))
    ]
    return [*pressures, {"type": "Ready", "status": "True", "reason": "KubeletReady", **kubelet}]
