"""The EKS add-ons that a cluster works by: those that must be there before its first node, and those that need one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from infra import versions
from infra.pod_identity import PodRole

# EKS itself waits 20 minutes for an add-on's pods before it calls it degraded.
ADDON_TIMEOUTS = pulumi.CustomTimeouts(create="20m", update="20m", delete="20m")


@dataclass(frozen=True, kw_only=True)
class NodeAddonsArgs:
    """`version` is the cluster's, one of versions.EKS; `tags` are put on the interfaces that the CNI makes."""

    cluster_name: pulumi.Input[str]
    version: str
    partition: str
    tags: Mapping[str, str]


class NodeAddons(pulumi.ComponentResource):
    """DaemonSets that make a node one: without vpc-cni it never becomes Ready. `addons` are to be there before any."""

    addons: Sequence[pulumi.Resource]

    def __init__(self, name: str, args: NodeAddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:NodeAddons", name, None, opts)
        pinned = versions.EKS[args.version]
        cni_role = PodRole(
            f"{name}-vpc-cni",
            description="Network interfaces and addresses of pods",
            managed=f"arn:{args.partition}:iam::aws:policy/AmazonEKS_CNI_Policy",
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.addons = [
            eks_addon(
                f"{name}-vpc-cni",
                args.cluster_name,
                "vpc-cni",
                pinned.vpc_cni,
                configuration=cni_configuration(args.tags),
                role=("aws-node", cni_role),
                parent=self,
            ),
            eks_addon(f"{name}-kube-proxy", args.cluster_name, "kube-proxy", pinned.kube_proxy, parent=self),
            eks_addon(
                f"{name}-pod-identity-agent",
                args.cluster_name,
                "eks-pod-identity-agent",
                pinned.pod_identity_agent,
                parent=self,
            ),
        ]
        self.register_outputs({"version": args.version})


@dataclass(frozen=True, kw_only=True)
class CoreAddonsArgs:
    """`system_nodes` is what pods without a toleration run on. `ebs_csi`: volumes of EBS are claimed."""

    cluster_name: pulumi.Input[str]
    version: str
    partition: str
    system_nodes: Sequence[pulumi.Resource]
    ebs_csi: bool


class CoreAddons(pulumi.ComponentResource):
    """Deployments: EKS calls them degraded for as long as no node takes them.

    `dns` is what pods find each other by, `volumes` what a pod with a claim does not start without.
    """

    dns: pulumi.Resource
    volumes: Sequence[pulumi.Resource]

    def __init__(self, name: str, args: CoreAddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:CoreAddons", name, None, opts)
        pinned = versions.EKS[args.version]
        self.dns = eks_addon(
            f"{name}-coredns",
            args.cluster_name,
            "coredns",
            pinned.coredns,
            parent=self,
            after=args.system_nodes,
        )
        self.volumes = []
        if args.ebs_csi:
            role = PodRole(
                f"{name}-ebs-csi",
                description="Volumes that pods claim",
                managed=f"arn:{args.partition}:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy",
                opts=pulumi.ResourceOptions(parent=self),
            )
            self.volumes = [
                eks_addon(
                    f"{name}-ebs-csi",
                    args.cluster_name,
                    "aws-ebs-csi-driver",
                    pinned.ebs_csi,
                    role=("ebs-csi-controller-sa", role),
                    parent=self,
                    after=args.system_nodes,
                )
            ]
        self.register_outputs({"version": args.version})


def cni_configuration(tags: Mapping[str, str]) -> dict[str, Any]:
    """Of the vpc-cni add-on."""
    return {
        # Without it a NetworkPolicy is accepted and not enforced.
        "enableNetworkPolicy": "true",
        "env": {
            # By default a node takes all addresses of two interfaces; ours run a handful of pods.
            "WARM_IP_TARGET": "4",
            "MINIMUM_IP_TARGET": "16",
            "ADDITIONAL_ENI_TAGS": json.dumps(dict(tags), sort_keys=True),
        },
    }


def eks_addon(
    name: str,
    cluster_name: pulumi.Input[str],
    addon: str,
    version: str,
    *,
    parent: pulumi.Resource,
    configuration: Mapping[str, Any] | None = None,
    role: tuple[str, PodRole] | None = None,
    after: Sequence[pulumi.Resource] = (),
) -> aws.eks.Addon:
    """`role` is the service account that the add-on's pods run as, and what it may do."""
    associations = None
    if role is not None:
        account, pod_role = role
        associations = [aws.eks.AddonPodIdentityAssociationArgs(service_account=account, role_arn=pod_role.arn)]
        after = [*after, pod_role.ready]
    return aws.eks.Addon(
        name,
        cluster_name=cluster_name,
        addon_name=addon,
        addon_version=version,
        configuration_values=json.dumps(configuration) if configuration else None,
        pod_identity_associations=associations,
        # What is declared here wins over what stands in the cluster.
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        # No value tells of nodes, nor that a role has its policy.
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[*after], custom_timeouts=ADDON_TIMEOUTS),
    )
