"""The Kubernetes half of a stack: add-ons, nodes and a Ray cluster on a cluster, handed on as a RayHead."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra import versions
from infra.addon_decision import AddonFound
from infra.addons import Addons, AddonsArgs
from infra.cluster_guard import ClusterGuard
from infra.kubernetes_settings import KubernetesSettings
from infra.metrics_addon import MetricsAddon, MetricsArgs
from infra.ray_cluster import RayCluster, RayClusterArgs
from infra.ray_cluster_manifest import spec_digest
from infra.ray_cluster_ready import RayClusterReady
from infra.ray_cluster_spec import DASHBOARD_PORT, GPU_TOLERATION, RayClusterSpec
from infra.ray_head import RayHead
from infra.readiness import NodeReadiness, NodeReadinessArgs


@dataclass(frozen=True, kw_only=True)
class KubernetesRayArgs:
    """`found` is what the cluster has of each add-on, by chart name; `cluster_id` as `ClusterFacts.identity`.

    On eks: `provider` reaches the cluster, and so does `kubeconfig`; what runs on system nodes waits for `system`, what
    runs on GPU nodes for `gpu`, of which `node_groups` tells when they are others. Ray's pods wait for `before_pods`
    besides, are Ready only with `before_ready`, run as `service_account`, and their claim is bound to `claim_volume`.
    `kept_nodes`: how many workers the run in the state had, where their nodes have been given back since.
    """

    settings: KubernetesSettings
    cluster_id: pulumi.Input[str]
    found: Mapping[str, AddonFound]
    provider: k8s.Provider | None = None
    kubeconfig: pulumi.Input[str] | None = None
    system: Sequence[pulumi.Resource] = ()
    gpu: Sequence[pulumi.Resource] = ()
    node_groups: Sequence[pulumi.Input[str]] = ()
    before_pods: Sequence[pulumi.Resource] = ()
    before_ready: Sequence[pulumi.Resource] = ()
    service_account: str = ""
    claim_volume: pulumi.Input[str] | None = None
    kept_nodes: int = 0


class KubernetesRay(pulumi.ComponentResource):
    """`head` is what the job needs of the Ray cluster; `pods` what the run record says of where it ran.

    With no nodes there is a RayCluster without workers, and no head for a job but one that has run (`kept_nodes`).
    """

    head: RayHead | None
    pods: pulumi.Input[Sequence[Mapping[str, Any]]]

    def __init__(self, name: str, args: KubernetesRayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:KubernetesRay", name, None, opts)
        settings, access = args.settings, args.settings.access
        instance = settings.instance
        kubeconfig = access.kubeconfig if args.kubeconfig is None else args.kubeconfig
        provider = args.provider or self._guarded_provider(name, args)
        here = pulumi.ResourceOptions(parent=self, providers=[provider])
        addons_args = AddonsArgs.of(
            settings, instance=instance, found=args.found, kubeconfig=kubeconfig, system_made=bool(args.system)
        )
        addons = Addons(f"{name}-addons", addons_args, here)
        if settings.metrics is not None:
            metrics_args = MetricsArgs(
                metrics=settings.metrics,
                target=addons_args.target,
                instance=instance,
                node_selector=settings.node_selector,
                image_mirror=settings.image_mirror,
            )
            MetricsAddon(f"{name}-metrics", metrics_args, here)
        kuberay = addons.releases.get(versions.KUBERAY_CHART.name)
        plugins = [release for chart, release in addons.releases.items() if chart != versions.KUBERAY_CHART.name]
        nodes = [self._nodes(name, args, kubeconfig, plugins)] if settings.nodes else []
        cluster_args = RayClusterArgs.of(
            settings,
            instance=instance,
            service_account=args.service_account,
            claim_volume=args.claim_volume,
            own_system_nodes=bool(args.system),
            after=[*([kuberay] if kuberay is not None else []), *nodes, *args.system, *args.before_pods],
        )
        cluster = RayCluster(f"{name}-cluster", cluster_args, here)
        self.head, self.pods = None, ()
        if settings.nodes:
            self.head = self._head(args, cluster_args.spec, cluster, kubeconfig)
            self.pods = self._ready(name, args, self.head, cluster)
        elif args.kept_nodes:
            kept = dataclasses.replace(cluster_args.spec, nodes=args.kept_nodes)
            self.head = self._head(args, kept, cluster, kubeconfig)
        self.register_outputs({"specDigest": cluster.spec_digest})

    def _nodes(
        self,
        name: str,
        args: KubernetesRayArgs,
        kubeconfig: pulumi.Input[str],
        plugins: Sequence[k8s.helm.v3.Release],
    ) -> NodeReadiness:
        settings, instance = args.settings, args.settings.instance
        return NodeReadiness(
            f"{name}-nodes",
            NodeReadinessArgs(
                kubeconfig=kubeconfig,
                kube_context=settings.access.context,
                cluster_id=args.cluster_id,
                instance_type=settings.instance_type,
                nodes=settings.nodes,
                selector=settings.node_selector,
                zone=settings.zone,
                gpus=instance.gpus if instance else 0,
                efa=instance.efa_interfaces if instance else 0,
                tolerations=[GPU_TOLERATION] if instance else [],
                addons=[
                    *(pulumi.Output.format("{0} {1}", plugin.name, plugin.status.revision) for plugin in plugins),
                    *args.node_groups,
                ],
                ready_seconds=settings.ready_seconds,
            ),
            # A node group is waited for by its own resource, whose limit is longer and whose reasons are AWS's.
            pulumi.ResourceOptions(parent=self, depends_on=[*args.gpu]),
        )

    def _head(
        self, args: KubernetesRayArgs, spec: RayClusterSpec, cluster: RayCluster, kubeconfig: pulumi.Input[str]
    ) -> RayHead:
        return RayHead(
            kind="kubernetes",
            namespace=spec.namespace,
            cluster_name=spec.name,
            ray_version=spec.ray_version,
            spec_digest=spec_digest(spec),
            nodes=spec.nodes,
            accelerators_per_node=spec.ranks_per_node,
            worker_resource=spec.worker_resource,
            image=spec.image,
            address=f"http://{spec.name}-head-svc.{spec.namespace}.svc:{DASHBOARD_PORT}",
            token=cluster.token,
            kubeconfig=kubeconfig,
            kube_context=args.settings.access.context,
        )

    def _ready(
        self, name: str, args: KubernetesRayArgs, head: RayHead, cluster: RayCluster
    ) -> pulumi.Output[list[dict[str, Any]]]:
        settings = args.settings
        return RayClusterReady(
            f"{name}-ready",
            head=head.inputs(),
            cluster_uid=cluster.uid,
            image=head.image,
            workers=head.nodes,
            accelerators=head.accelerators_per_node,
            one_zone=bool(settings.instance and settings.instance.efa_interfaces),
            ready_seconds=settings.ready_seconds,
            unschedulable_seconds=settings.unschedulable_seconds,
            # Without names (before_ready) workers look for their head and go on looking: time that is not Ray's.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[cluster.resource, *args.before_ready]),
        ).pods

    def _guarded_provider(self, name: str, args: KubernetesRayArgs) -> k8s.Provider:
        """Of a cluster that was there before: nothing may be done on one that is not the stack's."""
        access = args.settings.access
        guard = ClusterGuard(f"{name}-cluster-guard", args.cluster_id, pulumi.ResourceOptions(parent=self))
        return kubernetes_provider(
            f"{name}-provider",
            kubeconfig=access.kubeconfig or None,
            context=access.context or None,
            cluster_id=args.cluster_id,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[guard]),
        )


def kubernetes_provider(
    name: str,
    *,
    kubeconfig: pulumi.Input[str] | None,
    context: str | None,
    cluster_id: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> k8s.Provider:
    return k8s.Provider(
        name,
        kubeconfig=kubeconfig,
        context=context,
        # Only another cluster replaces what is on it: a new kubeconfig of the same one does not.
        cluster_identifier=cluster_id,
        # What an `up` made in the moment it was killed is not in the state; the next one takes it over. Whether the
        # namespace is this stack's own to take is checked before.
        upsert_existing_objects=True,
        opts=opts,
    )
