"""What a cluster is like before anything is declared on it: read in a dozen calls, side by side."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from infra import versions
from infra.addon_decision import AddonFound, release_name
from infra.device_plugins import EFA, NVIDIA, PluginKind, offered, provides
from infra.kubernetes_objects import ZONE_LABEL, Object, condition, named
from infra.kubernetes_settings import KubernetesSettings
from infra.ray_cluster_spec import CLAIM_NAME, CLUSTER_NAME, STACK_LABEL
from workload.kubernetes_access import KubernetesError
from workload.kubernetes_api import FORBIDDEN, NOT_FOUND, KubernetesApi

# The chart's and the kustomization's name for the operator.
OPERATOR_LABELS = "app.kubernetes.io/name in (kuberay-operator,kuberay)"
AT_ONCE = 10


@dataclass(frozen=True, kw_only=True, order=True)
class Permission:
    """`namespace` empty: in every namespace. `resource` may name a subresource (pods/log)."""

    verb: str
    group: str
    resource: str
    namespace: str = ""

    @property
    def named(self) -> str:
        full = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {full}"


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """A worker node; `usable` is Ready and not cordoned."""

    name: str
    zone: str
    gpus: int
    efa: int
    usable: bool


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """A cluster as this user may see it: None where it may not be looked at.

    `identity` is the cluster's, whatever way leads to it; `version` the API server's ("v1.34.3"). `crd_versions` are
    the served versions of RayCluster, empty without it. `namespace_stack` is the stack that made the namespace, empty
    where none did; `owners` has the same for what is in it under the names that a stack gives. `nodes` are those of
    the workers (the node selector's). `denied` holds what this stack needs and this user may not do. `calls` counts
    the calls it took. `nodes_made`: they are this stack's own to make, and so not judged beforehand.
    """

    server: str
    identity: str
    version: str
    crd_versions: tuple[str, ...]
    kuberay: AddonFound | None
    nvidia_plugin: AddonFound | None
    efa_plugin: AddonFound | None
    namespace_exists: bool | None
    namespace_stack: str
    owners: Mapping[str, str]
    nodes: tuple[NodeFacts, ...] | None
    denied: tuple[Permission, ...] = ()
    calls: int = 0
    nodes_made: bool = False


EVERYTHING = Permission(verb="*", group="*", resource="*")


def read_facts(
    settings: KubernetesSettings, needed: Callable[[ClusterFacts], Sequence[Permission]] | None = None
) -> ClusterFacts:
    """Asks the API server; `needed` says, from the facts, which permissions this user must have.

    A user who may do everything is asked about nothing else. Raises KubernetesError, once and clearly, where the API
    server cannot be reached or does not know the user.
    """
    api = KubernetesApi(settings.access)
    # The first call alone: ten failures to connect would say no more than one.
    version = api.get("/version", doing=f"reading the version of {api.server} ({settings.access.named})")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = _Asked(api, pool)
        core = f"/api/v1/namespaces/{settings.namespace}"
        kind = asked.get("/apis/ray.io/v1")
        operators = asked.items("/apis/apps/v1/deployments", labelSelector=OPERATOR_LABELS)
        daemonsets = asked.items("/apis/apps/v1/daemonsets")
        namespace = asked.get(core)
        selector = ",".join(f"{key}={value}" for key, value in settings.node_selector.items())
        nodes = asked.items("/api/v1/nodes", **({"labelSelector": selector} if selector else {}))
        everything = pool.submit(_may, api, EVERYTHING)
        inside = {
            f"RayCluster {CLUSTER_NAME}": f"/apis/ray.io/v1/namespaces/{settings.namespace}/rayclusters/{CLUSTER_NAME}",
            f"PersistentVolumeClaim {CLAIM_NAME}": f"{core}/persistentvolumeclaims/{CLAIM_NAME}",
        }
        found = {name: asked.get(path) for name, path in inside.items()}

        deployments = operators.result()
        if deployments is None:
            # An operator of this namespace alone is the one such a user has.
            path = f"/apis/apps/v1/namespaces/{settings.namespace}/deployments"
            deployments = asked.items(path, labelSelector=OPERATOR_LABELS).result() or None
        seen = nodes.result()
        facts = ClusterFacts(
            server=api.server,
            identity=api.identity,
            version=str(version.get("gitVersion", "")),
            crd_versions=_served(api, kind.result()),
            kuberay=None
            if deployments is None
            else addon_found("Deployment", deployments, release_name(settings.namespace, versions.KUBERAY_CHART)),
            nvidia_plugin=plugin_found(
                NVIDIA, release_name(settings.namespace, versions.NVIDIA_CHART), daemonsets.result(), seen
            ),
            efa_plugin=plugin_found(
                EFA, release_name(settings.namespace, versions.EFA_CHART), daemonsets.result(), seen
            ),
            namespace_exists=None if namespace.result() is None else bool(namespace.result()),
            namespace_stack=_label(namespace.result(), STACK_LABEL),
            owners={name: _label(one.result(), STACK_LABEL) for name, one in found.items() if one.result()},
            nodes=None if seen is None else tuple(node_facts(node) for node in seen),
        )
        asking = () if needed is None or everything.result() else needed(facts)
        granted = list(pool.map(lambda permission: _may(api, permission), asking))
    denied = tuple(permission for permission, yes in zip(asking, granted, strict=True) if not yes)
    return dataclasses.replace(facts, denied=denied, calls=api.calls)


def plugin_found(
    kind: PluginKind, ours: str, daemonsets: Sequence[Object] | None, nodes: Sequence[Object] | None
) -> AddonFound | None:
    """From every DaemonSet, and from nodes that offer the device although no DaemonSet of it exists (Bottlerocket).

    `ours` is the Helm release this stack would make. None where neither may be looked at.
    """
    plugins = [daemonset for daemonset in daemonsets or () if provides(daemonset, kind)]
    if plugins:
        return addon_found("DaemonSet", plugins, ours)
    built_in = [node["metadata"]["name"] for node in nodes or () if offered(node, kind.resource)]
    if built_in:
        return AddonFound(present=True, where=f"node {built_in[0]} offers {kind.resource} by itself")
    return None if daemonsets is None else AddonFound(present=False)


def addon_found(kind: str, objects: Sequence[Object], ours: str) -> AddonFound:
    """From the add-on's DaemonSets or Deployments; where there are several, this stack's own release counts."""
    releases = [_release(one) for one in objects]
    return AddonFound(
        present=bool(objects),
        ours=ours in releases,
        where=", ".join(f"{kind} {named(one)}" for one in objects),
        release=ours if ours in releases else next(filter(None, releases), ""),
    )


def node_facts(node: Object) -> NodeFacts:
    labels = node["metadata"].get("labels", {})
    spec = node.get("spec", {})
    return NodeFacts(
        name=node["metadata"]["name"],
        zone=labels.get(ZONE_LABEL, ""),
        gpus=offered(node, NVIDIA.resource),
        efa=offered(node, EFA.resource),
        usable=condition(node, "Ready").get("status") == "True" and not spec.get("unschedulable"),
    )


def _release(found: Object) -> str:
    """The Helm release that an object belongs to; empty where Helm did not make it."""
    if found["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") != "Helm":
        return ""
    return str(found["metadata"].get("annotations", {}).get("meta.helm.sh/release-name", ""))


def _label(found: Mapping[str, Any] | None, name: str) -> str:
    return str((found or {}).get("metadata", {}).get("labels", {}).get(name, ""))


class _Asked:
    """Questions that run side by side; None is the answer where this user may not look, {} where nothing is there."""

    def __init__(self, api: KubernetesApi, pool: ThreadPoolExecutor) -> None:
        self._api = api
        self._pool = pool

    def get(self, path: str) -> Future[Mapping[str, Any] | None]:
        return self._pool.submit(_allowed, self._api, path)

    def items(self, path: str, **query: str) -> Future[Sequence[Mapping[str, Any]] | None]:
        def listed() -> Sequence[Mapping[str, Any]] | None:
            answer = _allowed(self._api, path, **query)
            return None if answer is None else answer.get("items", [])

        return self._pool.submit(listed)


def _allowed(api: KubernetesApi, path: str, **query: str) -> Mapping[str, Any] | None:
    try:
        return api.get(path, doing=f"looking at {path}", **query)
    except KubernetesError as error:
        if error.status == NOT_FOUND:
            return {}
        if error.status == FORBIDDEN:
            return None
        raise


def _served(api: KubernetesApi, v1: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Discovery is open to every user; where v1 is not served, an older KubeRay may serve another version."""
    if any(resource.get("name") == "rayclusters" for resource in (v1 or {}).get("resources", [])):
        return ("v1",)
    group = _allowed(api, "/apis/ray.io") or {}
    return tuple(version["version"] for version in group.get("versions", []))


def _may(api: KubernetesApi, permission: Permission) -> bool:
    resource, _, subresource = permission.resource.partition("/")
    attributes = {
        "verb": permission.verb,
        "group": permission.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": permission.namespace,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = api.create(path, review, doing=f"asking whether this user may {permission.named}")
    return bool(answer["status"]["allowed"])
