"""PURE: what stands in the way of this stack on a cluster as its facts have it, said before anything is declared."""

import re
from collections.abc import Sequence

from infra import versions
from infra.addon_decision import AddonFound, installs
from infra.cluster_facts import ClusterFacts, NodeFacts, Permission
from infra.instances import InstanceType
from infra.kubernetes_settings import AddonSettings, KubernetesSettings

# The Kubernetes provider watches every object that it deletes, and waits ten minutes where it may not.
_MANAGE = ("get", "list", "watch", "create", "patch", "delete")
_READ = ("get", "list", "watch")
# A chart brings a Deployment or DaemonSet with its accounts and roles; Helm keeps its record in Secrets.
_CHART = (
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
)


def needed_permissions(facts: ClusterFacts, settings: KubernetesSettings) -> Sequence[Permission]:
    """What this stack does on the cluster as this user, and what following its job takes."""
    namespace = settings.namespace
    wanted = {
        ("ray.io", "rayclusters"): _MANAGE,
        ("", "secrets"): _MANAGE,
        ("networking.k8s.io", "networkpolicies"): _MANAGE,
        ("", "pods"): _READ,
        ("", "pods/log"): ("get",),
        ("", "pods/portforward"): ("get", "create"),
        ("", "events"): ("list", "watch"),
    }
    if settings.ray.pre_pull:
        wanted["apps", "daemonsets"] = _MANAGE
    if not settings.storage.claim and settings.storage.in_claim:
        wanted["", "persistentvolumeclaims"] = _MANAGE
    permissions = [
        Permission(verb=verb, group=group, resource=resource, namespace=namespace)
        for (group, resource), verbs in wanted.items()
        for verb in verbs
    ]
    if settings.namespace_mode == "create":
        permissions += [Permission(verb=verb, group="", resource="namespaces") for verb in _MANAGE]
    if any(installs(addon.mode, found) for _, addon, found in _addons(facts, settings)):
        permissions += [Permission(verb="create", group=group, resource=resource) for group, resource in _CHART]
    if installs(settings.kuberay.mode, facts.kuberay):
        permissions += [
            Permission(verb="create", group="apiextensions.k8s.io", resource="customresourcedefinitions"),
            Permission(verb="create", group="", resource="namespaces"),
        ]
    return sorted(set(permissions))


def problems(facts: ClusterFacts, settings: KubernetesSettings, *, stack: str) -> list[str]:
    """Sentences, each with what is wrong and what to do about it; empty when `stack` may be declared."""
    return [
        *_version_problems(facts),
        *_permission_problems(facts, settings),
        *_namespace_problems(facts, settings, stack),
        *_kuberay_problems(facts, settings),
        *_node_problems(facts, settings)[0],
    ]


def notes(facts: ClusterFacts, settings: KubernetesSettings) -> list[str]:
    """What could not be looked at, and what may still come right by itself."""
    unseen = {
        "nodes": facts.nodes is None,
        "DaemonSets of all namespaces (device plugins)": facts.nvidia_plugin is None and bool(settings.instance_type),
        "KubeRay's Deployment": facts.kuberay is None,
        f"namespace {settings.namespace}": facts.namespace_exists is None,
    }
    skipped = [what for what, hidden in unseen.items() if hidden]
    lines = [f"not permitted to look at {', '.join(skipped)}: not checked"] if skipped else []
    return [*lines, *_node_problems(facts, settings)[1]]


def _version_problems(facts: ClusterFacts) -> list[str]:
    oldest = versions.KUBERNETES_MINIMUM
    # A build of one's own says v0.0.0: it is whatever it is.
    if not any(_minor(facts.version)) or _minor(facts.version) >= _minor(oldest):
        return []
    return [f"the cluster runs Kubernetes {facts.version}; this needs {oldest} or newer: upgrade it, or use another"]


def _minor(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, with or without a v; empty where it has none."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else ()


def _permission_problems(facts: ClusterFacts, settings: KubernetesSettings) -> list[str]:
    """One sentence a scope: what is missing is usually one Role."""
    lines = []
    for namespace in sorted({permission.namespace for permission in facts.denied}):
        named = _grouped([one for one in facts.denied if one.namespace == namespace])
        scope = f"in namespace {namespace}" if namespace else "in the whole cluster"
        remedy = "have a Role with these rights bound to this user"
        if not namespace:
            remedy = "use a user who may, or set kubeNamespaceMode and the addon* settings to existing"
        lines.append(f"this user ({settings.access.named}) may not {named} {scope}: {remedy}")
    return lines


def _grouped(permissions: Sequence[Permission]) -> str:
    """'get, list pods; create pods/portforward'."""
    verbs: dict[str, list[str]] = {}
    for permission in permissions:
        full = permission.named.partition(" ")[2]
        verbs.setdefault(full, []).append(permission.verb)
    return "; ".join(f"{', '.join(dict.fromkeys(found))} {resource}" for resource, found in verbs.items())


def _namespace_problems(facts: ClusterFacts, settings: KubernetesSettings, stack: str) -> list[str]:
    if settings.namespace_mode == "existing" and facts.namespace_exists is False:
        return [
            f"namespace {settings.namespace} does not exist, and kubeNamespaceMode is 'existing': "
            "make it, name another, or set kubeNamespaceMode to 'create'"
        ]
    made = {name: owner for name, owner in facts.owners.items() if owner != stack}
    if settings.storage.claim or not settings.storage.in_claim:
        made = {name: owner for name, owner in made.items() if not name.startswith("PersistentVolumeClaim")}
    if made:
        whose = "; ".join(f"{name} ({f'of stack {owner}' if owner else 'of no stack'})" for name, owner in made.items())
        return [f"namespace {settings.namespace} has what is not this stack's: {whose}: set kubeNamespace to another"]
    if settings.namespace_mode == "existing" and facts.namespace_stack == stack:
        return [
            f"namespace {settings.namespace} is this stack's own, and with kubeNamespaceMode 'existing' it would be "
            "removed now, with all in it: leave kubeNamespaceMode at 'create'"
        ]
    if settings.namespace_mode == "create" and facts.namespace_exists and facts.namespace_stack != stack:
        whose = f"belongs to stack {facts.namespace_stack}" if facts.namespace_stack else "was not made by this stack"
        return [
            f"namespace {settings.namespace} exists and {whose}, which would take it along when it is destroyed: "
            "set kubeNamespace to another name, or kubeNamespaceMode to 'existing'"
        ]
    return []


def _kuberay_problems(facts: ClusterFacts, settings: KubernetesSettings) -> list[str]:
    served = facts.crd_versions
    if served and "v1" not in served:
        return [
            f"the cluster serves RayCluster only as ray.io/{', '.join(served)}, this needs ray.io/v1: "
            "upgrade KubeRay to 1.0 or newer (CRDs too)"
        ]
    if served or installs(settings.kuberay.mode, facts.kuberay):
        return []
    if settings.kuberay.mode == "existing":
        return [
            "KubeRay is not installed (no kind RayCluster), and addonKubeRay is 'existing': install it, or set 'auto'"
        ]
    return [
        "KubeRay is not installed, and this user may not look for it, let alone install it: ask an administrator to"
    ]


def _addons(
    facts: ClusterFacts, settings: KubernetesSettings
) -> Sequence[tuple[str, AddonSettings, AddonFound | None]]:
    """The add-ons this stack needs; a worker without GPUs needs no device plugin."""
    instance = settings.instance
    addons = [("KubeRay", settings.kuberay, facts.kuberay)]
    if instance and instance.gpus:
        addons.append(("the NVIDIA device plugin", settings.nvidia_plugin, facts.nvidia_plugin))
    if instance and instance.efa_interfaces:
        addons.append(("the EFA device plugin", settings.efa_plugin, facts.efa_plugin))
    return addons


def _node_problems(facts: ClusterFacts, settings: KubernetesSettings) -> tuple[list[str], list[str]]:
    """Problems and warnings. A node may still come, and get Ready; one that offers too few devices never fits."""
    if facts.nodes is None or facts.nodes_made:
        return [], []
    labels = ", ".join(f"{key}={value}" for key, value in settings.node_selector.items())
    chosen = f"with the labels {labels}" if labels else "at all"
    instance = settings.instance
    fitting = [node for node in facts.nodes if not _too_small(node, settings)]
    if instance and facts.nodes and not fitting:
        return [f"no node {chosen} fits: {'; '.join(_unfit(node, instance) for node in facts.nodes[:4])}"], []
    usable = [node for node in fitting if node.usable]
    one_zone = bool(settings.zone or (instance and instance.efa_interfaces))
    by_zone: dict[str, int] = {}
    for node in usable:
        by_zone[node.zone] = by_zone.get(node.zone, 0) + 1
    if settings.zone and usable and settings.zone not in by_zone:
        return [f"no node {chosen} is in gpuZone {settings.zone} (there are: {_counts(by_zone)})"], []
    there = len(usable) if not one_zone else by_zone.get(settings.zone, 0) if settings.zone else _most(by_zone)
    if there >= settings.nodes:
        short = [zone for zone, count in by_zone.items() if count < settings.nodes]
        if one_zone and not settings.zone and short:
            # The scheduler chooses the zone with the first worker, and does not look ahead.
            best = max(by_zone, key=lambda zone: by_zone[zone])
            return [
                f"the nodes {chosen} are in several zones ({_counts(by_zone)}), not each has room for all "
                f"{settings.nodes} workers, and EFA does not leave a zone: set gpuZone to {best}"
            ], []
        return [], []
    if one_zone and not settings.zone and len(usable) >= settings.nodes:
        return [
            f"the {len(usable)} nodes {chosen} are spread over zones ({_counts(by_zone)}), and all {settings.nodes} "
            "workers need one: EFA does not leave a zone; move nodes, or set gpuNodes to fewer"
        ], []
    if not facts.nodes:
        return [], [f"the cluster has no node {chosen} yet: waiting for {settings.nodes} (or correct gpuNodeSelector)"]
    where = f" in gpuZone {settings.zone}" if settings.zone else ""
    return [], [f"{there} of the {settings.nodes} nodes {chosen}{where} are Ready so far: waiting for more"]


def _most(by_zone: dict[str, int]) -> int:
    return max(by_zone.values(), default=0)


def _too_small(node: NodeFacts, settings: KubernetesSettings) -> bool:
    instance = settings.instance
    if instance is None:
        return False
    return 0 < node.gpus < instance.gpus or 0 < node.efa < instance.efa_interfaces


def _unfit(node: NodeFacts, instance: InstanceType) -> str:
    return (
        f"{node.name} offers {node.gpus} GPUs and {node.efa} EFA interfaces, "
        f"{instance.name} has {instance.gpus} and {instance.efa_interfaces}"
    )


def _counts(by_zone: dict[str, int]) -> str:
    return ", ".join(f"{zone or 'no zone'}: {count}" for zone, count in sorted(by_zone.items()))
