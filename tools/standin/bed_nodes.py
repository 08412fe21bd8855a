"""The nodes of a stand-in node group, in the test bed that stands for its cluster."""

import json
import secrets
import time
import urllib.parse
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra import instances
from tools.bed.api import Api, ApiError
from tools.bed.errors import BedError
from tools.bed.nodes import DEVICES_ANNOTATION, EFA, GPU, SHAPES, NodeSpec, Shape, manifest
from workload.errors import BadInputError

GROUP_LABEL, CAPACITY_LABEL = "eks.amazonaws.com/nodegroup", "eks.amazonaws.com/capacityType"
TEMPLATE_LABEL = "eks.amazonaws.com/sourceLaunchTemplateVersion"
BED_FILE = "bed.json"
READY_SECONDS = 60.0
_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}
# What the bed gives a GPU node by itself; on EKS that is the group's to say.
_BED_LABELS = {"role": "", "nvidia.com/gpu.present": ""}


@dataclass(frozen=True, kw_only=True)
class BedFile:
    """bed.json in a stand-in's folder: the bed that is the account's cluster. `ca` is base64 of a PEM file."""

    kubeconfig: str
    server: str
    ca: str
    token: str
    certificate: str
    agent_port: int
    kubelet_version: str

    def api(self) -> Api:
        return Api(Path(self.kubeconfig), Path(self.certificate))


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """A managed node group as EKS launched it: `count` instances in `zone`.

    `taints` are EKS's or Kubernetes' ({key, value, effect}). `efa` interfaces has each instance by its launch template,
    whose `template` version it was launched from. Without `gpu_driver` (an AMI without NVIDIA's driver and toolkit) a
    node has no GPU to offer.
    """

    cluster: str
    name: str
    instance_type: str
    count: int
    zone: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    efa: int = 0
    gpu_driver: bool = True
    capacity_type: str = "ON_DEMAND"
    template: str = ""


def join(bed: Mapping[str, Any], group: Mapping[str, Any]) -> list[str]:
    """Makes the group's nodes what it now is, and returns their names once they are Ready.

    `bed` and `group` have the fields of BedFile and NodeGroup. Nodes of another type, zone, template version or with
    other devices are replaced, as EKS would; labels and taints change in place; the newest nodes go first.
    Raises BedError when the bed does not answer or nodes do not become Ready, BadInputError for an instance type that
    nobody here knows.
    """
    there, wanted = BedFile(**bed), NodeGroup(**group)
    api = there.api()
    pattern = _manifest(there, wanted, "pattern")
    kept: list[str] = []
    others: list[str] = []
    for node in sorted(_nodes(api, wanted.name), key=lambda node: str(node["metadata"]["creationTimestamp"])):
        alike = _launched(node) == _launched(pattern) and len(kept) < wanted.count
        (kept if alike else others).append(node["metadata"]["name"])
    _remove(api, others)
    for name in kept:
        _update(api, name, pattern)
    new = [_new_instance() for _ in range(wanted.count - len(kept))]
    for instance in new:
        api.create(_manifest(there, wanted, instance))
    names = sorted([*kept, *(name_of(instance, wanted.zone) for instance in new)])
    _wait(api, wanted.name, set(names))
    return names


def leave(bed: Mapping[str, Any], group: Mapping[str, Any]) -> None:
    """Removes all nodes of a group, and what ran on them. No error when there are none."""
    api = BedFile(**bed).api()
    _remove(api, [node["metadata"]["name"] for node in _nodes(api, group["name"])])


def name_of(instance: str, zone: str) -> str:
    """The private DNS name of an instance whose subnet names hosts by instance id: no other bed has it."""
    region = zone[:-1]
    return f"{instance}.ec2.internal" if region == "us-east-1" else f"{instance}.{region}.compute.internal"


def node_spec(group: NodeGroup, instance: str) -> NodeSpec:
    """Raises BadInputError for an instance type that is known neither to the program nor to the bed."""
    shape = shape_of(group.instance_type)
    taints = [{**taint, "effect": _EFFECTS.get(taint["effect"], taint["effect"])} for taint in group.taints]
    return NodeSpec(
        name=name_of(instance, group.zone),
        instance_type=group.instance_type,
        zone=group.zone,
        labels={
            **_BED_LABELS,
            **group.labels,
            GROUP_LABEL: group.name,
            CAPACITY_LABEL: group.capacity_type,
            TEMPLATE_LABEL: group.template,
        },
        taints=tuple(taints),
        devices={GPU: shape.gpus if group.gpu_driver else 0, EFA: group.efa},
        provider_id=f"aws:///{group.zone}/{instance}",
        given_shape=shape,
    )


def shape_of(instance_type: str) -> Shape:
    try:
        found = instances.known(instance_type)
    except BadInputError:
        if instance_type in SHAPES:
            return SHAPES[instance_type]
        raise
    return Shape(cpus=found.vcpus, memory_gib=found.memory_gib, gpus=found.gpus, efa=found.efa_interfaces)


def _new_instance() -> str:
    return f"i-0{secrets.token_hex(8)}"


def _manifest(bed: BedFile, group: NodeGroup, instance: str) -> dict[str, Any]:
    spec = node_spec(group, instance)
    return manifest(spec, agent_port=bed.agent_port, devices_published=False, kubelet_version=bed.kubelet_version)


def _launched(node: Mapping[str, Any]) -> tuple[Any, ...]:
    """What an instance is launched with, so that another one is needed when it changes."""
    metadata = node["metadata"]
    labels = ("node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", CAPACITY_LABEL, TEMPLATE_LABEL)
    devices = json.loads(metadata["annotations"][DEVICES_ANNOTATION])
    return (devices, *(metadata["labels"].get(label, "") for label in labels))


def _update(api: Api, name: str, pattern: Mapping[str, Any]) -> None:
    """Gives a node the group's labels and taints of now; a label that the group no longer has stays, as on EKS."""
    labels = {key: value for key, value in pattern["metadata"]["labels"].items() if key != "kubernetes.io/hostname"}
    change = {"metadata": {"labels": labels}, "spec": {"taints": pattern["spec"]["taints"]}}
    api.merge(f"/api/v1/nodes/{name}", change)


def _nodes(api: Api, group: str) -> list[dict[str, Any]]:
    selector = urllib.parse.quote(f"{GROUP_LABEL}={group}")
    return api.list(f"/api/v1/nodes?labelSelector={selector}")


def _remove(api: Api, names: Sequence[str]) -> None:
    """EKS drains a node before it terminates the instance; here its pods end with it."""
    for name in names:
        _delete(api, f"/api/v1/nodes/{name}")
    for pod in api.list("/api/v1/pods") if names else ():
        if pod["spec"].get("nodeName") in names:
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            _delete(api, f"{path}?gracePeriodSeconds=0")


def _delete(api: Api, path: str) -> None:
    try:
        api.delete(path)
    except ApiError as error:
        if error.status != 404:
            raise


def _wait(api: Api, group: str, names: Set[str]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        ready = {node["metadata"]["name"] for node in _nodes(api, group) if _is_ready(node)}
        if not names - ready:
            return
        if time.monotonic() > deadline:
            missing = ", ".join(sorted(names - ready))
            raise BedError(f"nodes {missing} of group {group} are not Ready after {READY_SECONDS:.0f} s")
        time.sleep(0.1)


def _is_ready(node: Mapping[str, Any]) -> bool:
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in node["status"].get("conditions", ()))
    return ready and not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", ()))
