"""Waiting for the workers' nodes: watches nodes, DaemonSets and the device plugins' pods."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Event
from typing import Any

from infra.device_plugins import provides
from infra.kubernetes_objects import described_node, named
from infra.node_pool import NodePool, SeenNodes
from infra.node_readiness import NodesReady, judge
from infra.wait_loop import until
from infra.waiting import Waiting
from workload.kubernetes_access import KubernetesAccess
from workload.kubernetes_api import KubernetesApi
from workload.kubernetes_watch import Watching


def await_nodes(props: Mapping[str, Any], *, say: Callable[[str], None], interrupt: Event) -> dict[str, Any]:
    """The outputs of GpuNodesReady from its inputs; raises ReportedError with the reason where it cannot be."""
    pool = NodePool(
        nodes=int(props["nodes"]),
        selector=props.get("selector") or {},
        zone=props.get("zone") or "",
        instance_type=props.get("instance_type") or "",
        gpus=int(props["gpus"]),
        efa=int(props["efa"]),
        tolerations=props.get("tolerations") or (),
    )
    if not pool.plugins and not pool.selector:
        return {"ready_zone": pool.zone, "ready_nodes": []}
    access = KubernetesAccess(kubeconfig=props.get("kubeconfig") or "", context=props.get("kube_context") or "")
    with Watching(KubernetesApi(access)) as watching:
        ready = until(
            lambda: _look(pool, watching),
            watching=watching,
            what=f"{pool.nodes} nodes for the Ray workers",
            seconds=float(props["ready_seconds"]),
            say=say,
            interrupt=interrupt,
        )
    if ready.skipped:
        say(f"the nodes are not checked: {ready.skipped}")
    return {"ready_zone": ready.zone, "ready_nodes": [described_node(node) for node in ready.nodes]}


def _look(pool: NodePool, watching: Watching) -> NodesReady | Waiting:
    selector = ",".join(f"{key}={value}" for key, value in pool.selector.items())
    nodes = watching.listing("/api/v1/nodes", **({"labelSelector": selector} if selector else {}))
    if nodes.refused or not pool.plugins:
        return judge(pool, SeenNodes(nodes=None if nodes.refused else nodes.objects))
    daemonsets = watching.listing("/apis/apps/v1/daemonsets")
    plugins = [one for one in daemonsets.objects if any(provides(one, kind) for kind, _ in pool.plugins)]
    pods = {named(plugin): _pods(plugin, watching) for plugin in plugins}
    seen = SeenNodes(
        nodes=nodes.objects,
        daemonsets=None if daemonsets.refused else daemonsets.objects,
        plugin_pods={name: found for name, found in pods.items() if found is not None},
    )
    verdict = judge(pool, seen)
    if isinstance(verdict, NodesReady) or not pool.efa:
        return verdict
    slices = watching.listing("/apis/resource.k8s.io/v1/resourceslices")
    return judge(pool, replace(seen, slices=slices.objects))


def _pods(plugin: Mapping[str, Any], watching: Watching) -> list[Mapping[str, Any]] | None:
    labels = plugin["spec"]["selector"].get("matchLabels", {})
    found = watching.listing(
        f"/api/v1/namespaces/{plugin['metadata']['namespace']}/pods",
        labelSelector=",".join(f"{key}={value}" for key, value in labels.items()),
    )
    if found.refused:
        return None
    owner = plugin["metadata"]["uid"]
    return [
        pod
        for pod in found.objects
        if any(reference["uid"] == owner for reference in pod["metadata"].get("ownerReferences", []))
    ]
