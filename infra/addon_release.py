"""One Helm release of an add-on, between what repairs an interrupted predecessor and what says that it is there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.addon_decision import release_name
from infra.helm_pending import HelmPending, HelmPendingArgs
from infra.versions import Chart

# A first node may still be on its way.
_SHORTEST_SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class ReleaseTarget:
    """Where releases of a stack go: `namespace` is the stack's own, after which they are named; `kubeconfig` reaches
    the same cluster as the Kubernetes provider of their parent."""

    namespace: str
    kubeconfig: pulumi.Input[str]
    kube_context: str
    ready_seconds: int


def addon_release(
    parent: pulumi.Resource,
    name: str,
    target: ReleaseTarget,
    chart: Chart,
    repository: str,
    namespace: str,
    namespace_made: pulumi.Input[str],
    values: Mapping[str, Any],
    *,
    awaited: bool,
    after: Sequence[pulumi.Resource] = (),
) -> k8s.helm.v3.Release:
    """`after`: what the chart's objects need of others without taking a value of it."""
    release_named = release_name(target.namespace, chart)
    marker_name = f"{release_named}-deployed"
    pending = HelmPending(
        f"{name}-{chart.name}-pending",
        HelmPendingArgs(
            release=release_named,
            namespace=namespace,
            marker=marker_name,
            kubeconfig=target.kubeconfig,
            kube_context=target.kube_context,
        ),
        pulumi.ResourceOptions(parent=parent),
    )
    release = k8s.helm.v3.Release(
        f"{name}-{chart.name}",
        name=release_named,
        namespace=namespace_made,
        **chart_source(chart, repository),
        values=values,
        description=pending.note,
        # What keeps a device plugin from its nodes, NodeReadiness knows and says; Helm would only wait.
        atomic=awaited,
        skip_await=not awaited,
        replace=True,
        timeout=max(target.ready_seconds, _SHORTEST_SECONDS),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[*after]),
    )
    k8s.core.v1.ConfigMap(
        f"{name}-{chart.name}-deployed",
        metadata={"name": marker_name, "namespace": namespace_made},
        data={"release": release_named},
        # Made after the release, removed before it: that is all it says.
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[release]),
    )
    return release


def chart_source(chart: Chart, repository: str) -> dict[str, Any]:
    """Where Helm takes a chart from; a chart in a folder has the version it has."""
    if repository.startswith("oci://"):
        return {"chart": f"{repository.rstrip('/')}/{chart.name}", "version": chart.version}
    if "://" in repository:
        return {"chart": chart.name, "version": chart.version, "repository_opts": {"repo": repository}}
    return {"chart": f"{repository.rstrip('/')}/{chart.name}"}


def image_of(chart: Chart, mirror: str) -> dict[str, str]:
    return {"repository": f"{mirror or chart.registry}/{chart.image}", "tag": chart.tag}
