"""The kubernetes platform: add-ons, nodes and a Ray cluster on a cluster that is there, handed on as a RayHead."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra import versions
from infra.addon_decision import AddonFound
from infra.addons import Addons, AddonsArgs
from infra.cluster_guard import ClusterGuard
from infra.kubernetes_settings import KubernetesSettings
from infra.ray_cluster import RayCluster, RayClusterArgs
from infra.ray_cluster_ready import RayClusterReady
from infra.ray_cluster_spec import DASHBOARD_PORT, GPU_TOLERATION
from infra.ray_head import RayHead
from infra.readiness import NodeReadiness, NodeReadinessArgs


@dataclass(frozen=True, kw_only=True)
class KubernetesRayArgs:
    """`found` is what the cluster has of each add-on, by chart name; `cluster_id` as `ClusterFacts.identity`."""

    settings: KubernetesSettings
    cluster_id: str
    found: Mapping[str, AddonFound]


class KubernetesRay(pulumi.ComponentResource):
    """`head` is what the job needs of the Ray cluster; `pods` what the run record says of where it ran."""

    head: RayHead
    pods: pulumi.Output[list[dict[str, Any]]]

    def __init__(self, name: str, args: KubernetesRayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:KubernetesRay", name, None, opts)
        settings, access = args.settings, args.settings.access
        instance = settings.instance
        own = pulumi.ResourceOptions(parent=self)
        guard = ClusterGuard(f"{name}-cluster-guard", args.cluster_id, own)
        provider = k8s.Provider(
            f"{name}-provider",
            kubeconfig=access.kubeconfig or None,
            context=access.context or None,
            cluster_identifier=args.cluster_id,
            # What an `up` made in the moment it was killed is not in the state; the next one takes it over. Whether the
            # namespace is this stack's own to take is checked before.
            upsert_existing_objects=True,
            # Nothing may be done on a cluster that is not the stack's.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[guard]),
        )
        here = pulumi.ResourceOptions(parent=self, providers=[provider])
        addons = Addons(f"{name}-addons", AddonsArgs.of(settings, instance=instance, found=args.found), here)
        kuberay = addons.releases.get(versions.KUBERAY_CHART.name)
        plugins = [release for chart, release in addons.releases.items() if chart != versions.KUBERAY_CHART.name]
        nodes = NodeReadiness(
            f"{name}-nodes",
            NodeReadinessArgs(
                kubeconfig=access.kubeconfig,
                kube_context=access.context,
                cluster_id=args.cluster_id,
                instance_type=settings.instance_type,
                nodes=settings.nodes,
                selector=settings.node_selector,
                zone=settings.zone,
                gpus=instance.gpus if instance else 0,
                efa=instance.efa_interfaces if instance else 0,
                tolerations=[GPU_TOLERATION] if instance else [],
                addons=[pulumi.Output.format("{0} {1}", plugin.name, plugin.status.revision) for plugin in plugins],
                ready_seconds=settings.ready_seconds,
            ),
            own,
        )
        cluster_args = RayClusterArgs.of(
            settings, instance=instance, after=[*([kuberay] if kuberay is not None else []), nodes]
        )
        spec = cluster_args.spec
        cluster = RayCluster(f"{name}-cluster", cluster_args, here)
        self.head = RayHead(
            kind="kubernetes",
            namespace=settings.namespace,
            cluster_name=spec.name,
            ray_version=spec.ray_version,
            spec_digest=cluster.spec_digest,
            nodes=spec.nodes,
            accelerators_per_node=spec.ranks_per_node,
            worker_resource=spec.worker_resource,
            image=spec.image,
            address=f"http://{spec.name}-head-svc.{settings.namespace}.svc:{DASHBOARD_PORT}",
            token=cluster.token,
            kubeconfig=access.kubeconfig,
            kube_context=access.context,
        )
        ready = RayClusterReady(
            f"{name}-ready",
            head=self.head.inputs(),
            cluster_uid=cluster.uid,
            image=spec.image,
            workers=spec.nodes,
            accelerators=spec.ranks_per_node,
            one_zone=spec.efa_interfaces > 0,
            ready_seconds=settings.ready_seconds,
            unschedulable_seconds=settings.unschedulable_seconds,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[cluster.resource]),
        )
        self.pods = ready.pods
        self.register_outputs({"dashboard": self.head.address, "specDigest": self.head.spec_digest})
