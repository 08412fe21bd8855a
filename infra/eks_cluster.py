"""The EKS control plane, with no nodes and no add-ons of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

from infra.eks_admins import admin_policy, entry_name
from infra.eks_kubeconfig import eks_kubeconfig

_LOG_DAYS = 30
# The shortest that KMS allows: what the key encrypts is gone with the cluster.
_KEY_DELETION_DAYS = 7


@dataclass(frozen=True, kw_only=True)
class EksClusterArgs:
    """`subnet_ids` are those of the control plane. The API can be reached from the VPC, and from `endpoint_cidrs`.

    `admins` are ARNs of roles and users beside the one who makes the cluster, whose entry is EKS's own. `secrets_key`
    is the ARN of a KMS key; empty makes one. `profile` and `assume_roles` are how the kubeconfig's user signs in.
    Nothing that bills is made before `billed_after`.
    """

    name: str
    version: str
    vpc_id: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    endpoint_cidrs: Sequence[str]
    admins: Sequence[str]
    logs: Sequence[str]
    secrets_key: str
    region: str
    profile: str
    assume_roles: Sequence[str]
    billed_after: Sequence[pulumi.Resource] = ()


class EksCluster(pulumi.ComponentResource):
    """`goes_with` is, for the options of what lies in the cluster, the resource that takes it along when it is deleted.

    `security_group` is the one EKS makes and gives to the control plane and managed nodes; `kubeconfig` a secret."""

    name: pulumi.Output[str]
    arn: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    security_group: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    resource: eks.Cluster
    goes_with: pulumi.Resource

    def __init__(self, name: str, args: EksClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:EksCluster", name, None, opts)
        before: list[pulumi.Resource] = [*args.billed_after]
        if args.logs:
            before.append(
                # EKS would make it itself: without tags, kept for ever, and left behind.
                aws.cloudwatch.LogGroup(
                    f"{name}-logs",
                    name=f"/aws/eks/{args.name}/cluster",
                    retention_in_days=_LOG_DAYS,
                    opts=pulumi.ResourceOptions(parent=self),
                )
            )
        self.resource = eks.Cluster(
            f"{name}-cluster",
            name=args.name,
            version=args.version,
            vpc_id=args.vpc_id,
            subnet_ids=[*args.subnet_ids],
            endpoint_private_access=True,
            endpoint_public_access=bool(args.endpoint_cidrs),
            public_access_cidrs=[*args.endpoint_cidrs] or None,
            authentication_mode=eks.AuthenticationMode.API,
            access_entries={entry_name(admin): _admin(admin) for admin in args.admins},
            create_oidc_provider=True,
            enabled_cluster_log_types=[*args.logs],
            encryption_config_key_arn=args.secrets_key or self._key(name, args).arn,
            upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type="STANDARD"),
            # Node groups, their security groups and add-ons are resources of this program: pinned and in its preview.
            skip_default_node_group=True,
            skip_default_security_groups=True,
            bootstrap_self_managed_addons=False,
            use_default_vpc_cni=True,
            kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(enabled=False),
            coredns_addon_options=eks.CoreDnsAddonOptionsArgs(enabled=False),
            # The component refuses an AWS provider of the program's own unless this says how its user signs in.
            provider_credential_opts=eks.KubeconfigOptionsArgs(
                profile_name=args.profile or None, role_arn=next(iter(args.assume_roles), None)
            ),
            # No value says that capacity is certain, or that the log group is there.
            opts=pulumi.ResourceOptions(parent=self, depends_on=before),
        )
        made: Any = self.resource.eks_cluster
        self.name, self.arn, self.endpoint = made.name, made.arn, made.endpoint
        # Of the resource in the component only an output is at hand, and its URN is all that counts.
        self.goes_with = cast(pulumi.Resource, made)
        self.security_group = made.vpc_config.cluster_security_group_id
        self.kubeconfig = pulumi.Output.secret(
            pulumi.Output.all(
                name=made.name, endpoint=made.endpoint, certificate_authority=made.certificate_authority.data
            ).apply(
                lambda parts: eks_kubeconfig(
                    **parts, region=args.region, profile=args.profile, assume_roles=args.assume_roles
                )
            )
        )
        self.register_outputs({"name": self.name, "arn": self.arn, "endpoint": self.endpoint})

    def _key(self, name: str, args: EksClusterArgs) -> aws.kms.Key:
        return aws.kms.Key(
            f"{name}-secrets-key",
            description=f"Secrets of the EKS cluster {args.name}",
            enable_key_rotation=True,
            deletion_window_in_days=_KEY_DELETION_DAYS,
            tags={"Name": f"{args.name}-secrets"},
            # No value says that capacity is certain.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*args.billed_after]),
        )


def _admin(principal: str) -> eks.AccessEntryArgs:
    return eks.AccessEntryArgs(
        principal_arn=principal,
        access_policies={
            "cluster": eks.AccessPolicyAssociationArgs(
                policy_arn=admin_policy(principal),
                access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
            )
        },
    )
