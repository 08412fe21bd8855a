"""PURE: which DaemonSets advertise a device to kubelets, and on which nodes they may run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.kubernetes_objects import Object, taint_text

# Nodes get these by themselves, and every pod of a DaemonSet tolerates them.
DAEMONSET_TOLERATES = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
)
# Charts ship these beside a plugin, from the plugin's own image; they advertise nothing.
COMPANIONS = ("feature-discovery", "mps-control-daemon", "dcgm", "validator")
SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class PluginKind:
    """A device plugin: its extended resource, our setting for it, and what images and DaemonSets of it are called."""

    title: str
    resource: str
    setting: str
    images: tuple[str, ...]
    names: tuple[str, ...]


NVIDIA = PluginKind(
    title="NVIDIA device plugin",
    resource="nvidia.com/gpu",
    setting="addonNvidiaPlugin",
    images=("k8s-device-plugin", "nvidia-gpu-device-plugin"),
    names=("nvidia-device-plugin", "nvidia-gpu-device-plugin"),
)
EFA = PluginKind(
    title="EFA device plugin",
    resource="vpc.amazonaws.com/efa",
    setting="addonEfaPlugin",
    images=("aws-efa-k8s-device-plugin", "eks-efa-k8s-device-plugin"),
    names=("efa-k8s-device-plugin", "efa-device-plugin"),
)


def provides(daemonset: Object, kind: PluginKind) -> bool:
    """Whether its pods are plugins of that kind, by the names of images and DaemonSet."""
    name = str(daemonset["metadata"]["name"])
    if any(word in name for word in COMPANIONS):
        return False
    images = {_repository(container["image"]) for container in daemonset["spec"]["template"]["spec"]["containers"]}
    return bool(images & set(kind.images)) or any(word in name for word in kind.names)


def offered(node: Object, resource: str) -> int:
    """How many of a device the node's kubelet gives out; 0 where none was ever registered."""
    return int(node.get("status", {}).get("allocatable", {}).get(resource, "0"))


def untolerated(node: Object, tolerations: Sequence[Object]) -> list[str]:
    """The node's taints, as key=value:effect, that keep a pod with these tolerations away."""
    return [
        taint_text(taint)
        for taint in node.get("spec", {}).get("taints", [])
        if taint["effect"] != "PreferNoSchedule" and not any(_tolerates(one, taint) for one in tolerations)
    ]


def shut_out_by(daemonset: Object, node: Object) -> str:
    """Why the DaemonSet makes no pod for the node; empty when it does."""
    pod = daemonset["spec"]["template"]["spec"]
    labels = node["metadata"].get("labels", {})
    missing = [f"{key}={value}" for key, value in pod.get("nodeSelector", {}).items() if labels.get(key) != value]
    if missing:
        return f"the node lacks the label {' and '.join(missing)}"
    affinity = pod.get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    unmet = [_unmet(term, labels, str(node["metadata"]["name"])) for term in terms]
    if terms and all(unmet):
        return f"the node lacks the label {' or '.join(dict.fromkeys(unmet))}"
    tolerations = [*pod.get("tolerations", []), *({"key": key, "operator": "Exists"} for key in DAEMONSET_TOLERATES)]
    taints = untolerated(node, tolerations)
    return f"it does not tolerate the node's taint {', '.join(taints)}" if taints else ""


def _repository(image: str) -> str:
    """The last part of an image's name: neither registry nor tag nor digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if not toleration.get("key"):
        return bool(toleration.get("operator") == "Exists")
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def _unmet(term: Object, labels: Mapping[str, str], name: str) -> str:
    """The demands of one node selector term that a node does not meet, joined; empty when it meets them all."""
    demands = [(demand, labels.get(demand["key"])) for demand in term.get("matchExpressions", [])]
    demands += [(demand, name) for demand in term.get("matchFields", [])]
    return " and ".join(_demand_text(demand) for demand, value in demands if not _meets(value, demand))


def _meets(value: str | None, demand: Object) -> bool:
    wanted = demand.get("values", [])
    match demand["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(wanted[0])
        case "Lt":
            return value is not None and value.isdigit() and int(value) < int(wanted[0])
    return True


def _demand_text(demand: Object) -> str:
    values = demand.get("values", [])
    match demand["operator"]:
        case "In":
            return f"{demand['key']}={'|'.join(values[:SHOWN])}" + ("|..." if len(values) > SHOWN else "")
        case "Exists":
            return str(demand["key"])
    return f"{demand['key']} {demand['operator']} {','.join(values)}".strip()
