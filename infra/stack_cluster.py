"""The cluster that an eks stack stands on: made here, or there before."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from infra.aws_facts import AwsFacts
from infra.eks_cluster import EksCluster, EksClusterArgs
from infra.eks_settings import EksSettings
from infra.existing_network import ExistingNetwork
from infra.kubernetes_ray import KubernetesRayArgs
from infra.network import Network


@dataclass(frozen=True, kw_only=True)
class StackCluster:
    """`goes_with` takes along what lies in the cluster when it is deleted; None for one that stays."""

    name: pulumi.Input[str]
    arn: pulumi.Input[str]
    version: str
    security_group: pulumi.Input[str]
    kubeconfig: pulumi.Input[str]
    goes_with: pulumi.Resource | None = None


def stack_cluster(
    name: str,
    settings: EksSettings,
    facts: AwsFacts,
    existing: KubernetesRayArgs | None,
    network: Network | ExistingNetwork,
    billed_after: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions,
) -> StackCluster:
    """Declares a cluster unless there is one in `facts`, of which `existing` has the kubeconfig."""
    found = facts.cluster
    if found is not None and existing is not None:
        return StackCluster(
            name=found.name,
            arn=found.arn,
            version=found.version,
            security_group=found.security_group,
            kubeconfig=existing.settings.access.kubeconfig,
        )
    made = EksCluster(
        name,
        EksClusterArgs(
            name=settings.name,
            version=settings.cluster.version,
            vpc_id=network.vpc_id,
            subnet_ids=network.control_plane_subnets,
            endpoint_cidrs=settings.cluster.endpoint_cidrs,
            admins=settings.cluster.admins,
            logs=settings.cluster.logs,
            secrets_key=settings.cluster.secrets_key,
            region=settings.aws.region,
            profile=settings.aws.profile,
            assume_roles=settings.aws.assume_roles,
            billed_after=billed_after,
        ),
        opts,
    )
    return StackCluster(
        name=made.name,
        arn=made.arn,
        version=settings.cluster.version,
        security_group=made.security_group,
        kubeconfig=made.kubeconfig,
        goes_with=made.goes_with,
    )
