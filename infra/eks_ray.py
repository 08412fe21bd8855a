"""The eks platform: AWS under the Kubernetes half, in the order data flows, handed on as a RayHead."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from infra import versions
from infra.addon_decision import AddonFound
from infra.aws_facts import AwsFacts
from infra.core_addons import CoreAddons, CoreAddonsArgs, NodeAddons, NodeAddonsArgs
from infra.eks_settings import EksSettings
from infra.eks_storage import EksStorage, EksStorageArgs
from infra.existing_network import ExistingNetwork
from infra.kubernetes_ray import KubernetesRay, KubernetesRayArgs, kubernetes_provider
from infra.network import Network, NetworkArgs
from infra.node_groups import GpuNodes, GpuNodesArgs, NodeRole, NodeRoleArgs, SystemNodes, SystemNodesArgs
from infra.ray_cluster_spec import SERVICE_ACCOUNT
from infra.ray_head import RayHead
from infra.reservation import Reservation, ReservationArgs
from infra.stack_cluster import StackCluster, stack_cluster
from infra.ttl import TtlSchedule
from infra.zones import ZonePlan

# A cluster made here has none of the add-ons.
NOTHING_YET = {
    chart.name: AddonFound(present=False)
    for chart in (versions.NVIDIA_CHART, versions.EFA_CHART, versions.KUBERAY_CHART)
}


@dataclass(frozen=True, kw_only=True)
class EksRayArgs:
    """`zones` are of a network made here, `subnets` of one that is there. `reserve`: a reservation is to be held now;
    `ended`: it is past its end; `targets`: nodes are to be launched into one. `kept_nodes`: workers of a run that stays
    in the state without them; 0 where there are nodes, or no run.

    `existing` is what an existing cluster was found to have, and its kubeconfig; None where the cluster is made here.
    """

    settings: EksSettings
    facts: AwsFacts
    zones: ZonePlan | None
    subnets: ExistingNetwork | None
    reserve: bool
    ended: bool
    targets: bool
    existing: KubernetesRayArgs | None
    kept_nodes: int = 0


class EksRay(pulumi.ComponentResource):
    """`head` is None without GPU nodes. `storage` is where checkpoints go, as ranks see it; `kubeconfig` is a secret;
    `outputs` what a user needs of AWS next."""

    head: RayHead | None
    pods: pulumi.Input[Sequence[Mapping[str, Any]]]
    storage: pulumi.Input[str]
    kubeconfig: pulumi.Output[str]
    outputs: Mapping[str, pulumi.Input[Any]]

    def __init__(self, name: str, args: EksRayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:EksRay", name, None, opts)
        settings, facts = args.settings, args.facts
        own = pulumi.ResourceOptions(parent=self)
        reservation = self._reservation(name, args)
        billed_after = reservation.before_billing if reservation else []
        network = args.subnets or self._network(name, args, billed_after)
        cluster = stack_cluster(f"{name}-eks", settings, facts, args.existing, network, billed_after, own)
        nodes_after: list[pulumi.Resource] = [*network.egress]
        role = self._role(name, args)
        if role:
            nodes_after += role.policies
        system: list[pulumi.Resource] = []
        core: CoreAddons | None = None
        if args.existing is None and role is not None:
            node_addons = NodeAddons(
                f"{name}-node-addons",
                NodeAddonsArgs(
                    cluster_name=cluster.name,
                    version=cluster.version,
                    partition=facts.partition,
                    tags=settings.all_tags,
                ),
                own,
            )
            nodes_after += node_addons.addons
            system = [self._system(name, args, cluster, network, role, nodes_after)]
            core_args = CoreAddonsArgs(
                cluster_name=cluster.name,
                version=cluster.version,
                partition=facts.partition,
                system_nodes=system,
                ebs_csi=settings.cluster.ebs_csi,
            )
            core = CoreAddons(f"{name}-core-addons", core_args, own)
        # What ends the GPU nodes at a fixed time is there before the first of them.
        if settings.guards.ttl_until and (settings.gpu.nodes or args.kept_nodes):
            nodes_after = [*nodes_after, TtlSchedule.of(f"{name}-ttl", settings, facts, cluster.name, own).schedule]
        gpu = self._gpu(name, args, cluster, network, role, reservation, nodes_after)
        provider = kubernetes_provider(
            f"{name}-provider", kubeconfig=cluster.kubeconfig, context=None, cluster_id=cluster.arn, opts=own
        )
        storage = EksStorage(
            f"{name}-storage",
            EksStorageArgs(
                name=settings.name,
                kind=settings.storage.kind,
                path=settings.storage.path,
                expire_days=settings.storage.expire_days,
                keep=settings.storage.keep,
                partition=facts.partition,
                version=cluster.version,
                cluster_name=cluster.name,
                namespace=settings.kubernetes.namespace,
                service_account=SERVICE_ACCOUNT,
                fsx_gib=settings.storage.fsx_gib,
                fsx_throughput=settings.storage.fsx_throughput,
                vpc_id=network.vpc_id,
                subnet_id=network.gpu_subnet,
                node_security_groups=[cluster.security_group],
                system_nodes=system,
                billed_after=billed_after,
                goes_with=cluster.goes_with,
            ),
            pulumi.ResourceOptions(parent=self, providers=[provider]),
        )
        makes_claim = settings.storage.kind == "claim" and not settings.kubernetes.storage.claim
        ray = KubernetesRay(
            f"{name}-kubernetes",
            dataclasses.replace(
                args.existing
                or KubernetesRayArgs(settings=settings.kubernetes, cluster_id=cluster.arn, found=NOTHING_YET),
                provider=provider,
                kubeconfig=cluster.kubeconfig,
                system=system,
                gpu=[gpu.resource] if gpu else [],
                node_groups=[gpu.revision] if gpu else [],
                before_pods=[*(core.volumes if core else []), *storage.ready],
                before_ready=[core.dns] if core else [],
                service_account=SERVICE_ACCOUNT,
                claim_volume=storage.volume,
                kept_nodes=args.kept_nodes,
            ),
            # All that is in it inherits this: nothing is deleted one by one when the cluster goes, or is gone already.
            # A claim made here has a volume outside the cluster, which its own deletion takes along.
            pulumi.ResourceOptions(parent=self, deleted_with=None if makes_claim else cluster.goes_with),
        )
        self.head, self.pods = ray.head, ray.pods
        in_claim = settings.kubernetes.storage.in_claim
        self.storage = settings.kubernetes.storage.seen_by_pods if in_claim else storage.uri
        self.kubeconfig = pulumi.Output.secret(cluster.kubeconfig)
        self.outputs = {
            "cluster": cluster.name,
            "region": settings.aws.region,
            "gpuZone": settings.gpu.zone,
            "storage": self.storage,
            "reservation": reservation.id if reservation and reservation.id is not None else "",
            "placementGroup": reservation.placement_group if reservation and reservation.placement_group else "",
        }
        self.register_outputs({"cluster": cluster.name})

    def _reservation(self, name: str, args: EksRayArgs) -> Reservation | None:
        """Before anything that bills; none for nodes that are not made here."""
        settings, capacity = args.settings, args.settings.capacity
        if settings.gpu.existing_group:
            return None
        return Reservation(
            f"{name}-reservation",
            ReservationArgs(
                name=settings.gpu_group,
                instance_type=settings.gpu.instance.name,
                zone=settings.gpu.zone,
                count=settings.gpu.nodes,
                until=capacity.until,
                placement_group=capacity.placement_group,
                reserve=args.reserve,
                held=capacity.reservation if args.targets else "",
            ),
            pulumi.ResourceOptions(parent=self),
        )

    def _role(self, name: str, args: EksRayArgs) -> NodeRole | None:
        """Also the CNI's where the cluster is another's: its CNI may have no role but its nodes'."""
        if args.settings.gpu.existing_group:
            return None
        role = NodeRoleArgs(partition=args.facts.partition, cni=args.existing is not None)
        return NodeRole(f"{name}-node", role, pulumi.ResourceOptions(parent=self))

    def _network(self, name: str, args: EksRayArgs, billed_after: Sequence[pulumi.Resource]) -> Network:
        network = args.settings.network
        assert args.zones is not None
        return Network(
            f"{name}-network",
            NetworkArgs(
                name=args.settings.name,
                cidr=network.cidr,
                zones=args.zones,
                nat=network.nat,
                endpoints=network.endpoints,
                billed_after=billed_after,
            ),
            pulumi.ResourceOptions(parent=self),
        )

    def _system(
        self,
        name: str,
        args: EksRayArgs,
        cluster: StackCluster,
        network: Network | ExistingNetwork,
        role: NodeRole,
        after: Sequence[pulumi.Resource],
    ) -> pulumi.Resource:
        settings, system = args.settings, args.settings.system
        return SystemNodes(
            f"{name}-system",
            SystemNodesArgs(
                label=f"{settings.name}-system",
                cluster_name=cluster.name,
                version=cluster.version,
                role_arn=role.role_arn,
                # The control plane's zones never change; another subnet would be another group.
                subnet_ids=network.control_plane_subnets,
                instance_type=system.instance_type,
                nodes=system.nodes,
                disk_gib=system.disk_gib,
                tags=settings.all_tags,
                cluster_security_group=cluster.security_group,
                after=after,
            ),
            pulumi.ResourceOptions(parent=self),
        ).resource

    def _gpu(
        self,
        name: str,
        args: EksRayArgs,
        cluster: StackCluster,
        network: Network | ExistingNetwork,
        role: NodeRole | None,
        reservation: Reservation | None,
        after: Sequence[pulumi.Resource],
    ) -> GpuNodes | None:
        settings, gpu = args.settings, args.settings.gpu
        if reservation is None or role is None:
            return None
        return GpuNodes(
            f"{name}-gpu",
            GpuNodesArgs(
                group_name=settings.gpu_group,
                cluster_name=cluster.name,
                version=cluster.version,
                role_arn=role.role_arn,
                subnet_id=network.gpu_subnet,
                vpc_id=network.vpc_id,
                instance=gpu.instance,
                nodes=gpu.nodes,
                disk_gib=gpu.disk_gib,
                disk_throughput=gpu.disk_throughput,
                disk_iops=gpu.disk_iops,
                ami_release=gpu.ami_release,
                labels=gpu.labels,
                tags=settings.all_tags,
                cluster_security_group=cluster.security_group,
                market=settings.capacity.market,
                reservation=reservation.id,
                placement_group=reservation.placement_group,
                other_security_groups=gpu.security_groups,
                # The template no longer names a reservation that is gone: no reason to end nodes that run, nor to
                # launch new ones outside it on the way to none.
                roll=gpu.nodes > 0 and not args.ended,
                after=[*after, *reservation.before_billing],
            ),
            pulumi.ResourceOptions(parent=self),
        )
