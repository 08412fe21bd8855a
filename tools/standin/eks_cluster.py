"""pulumi-eks's Cluster: the same children, names, parents, inputs and outputs as the real component makes."""

import json
import os
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from tools.standin import eks_access, eks_addons, eks_security_groups
from tools.standin.eks_kubeconfig import kubeconfig, region_of
from tools.standin.eks_rules import Children, children
from tools.standin.eks_service_role import ServiceRole

# The real component reads the thumbprint of the certificate behind AWS's OIDC issuer; nothing there can be asked here.
THUMBPRINT = "9e99a48a9960b14926bb7f3b02e22da2b0ab7280"


class Cluster(pulumi.ComponentResource):
    """`state` is what a program sees of it, by wire name."""

    state: dict[str, Any]

    def __init__(self, name: str, arguments: Mapping[str, Any], opts: pulumi.ResourceOptions | None) -> None:
        super().__init__("eks:index:Cluster", name, None, opts)
        self._prefix, self._arguments = name, arguments
        self._within = pulumi.ResourceOptions(parent=self)
        asked = children(arguments)
        partition = aws.get_partition_output(opts=pulumi.InvokeOutputOptions(parent=self))
        service_role = self._service_role(partition.partition) if asked.service_role else None
        role = service_role.direct if service_role else arguments["serviceRole"]
        security_group = arguments.get("clusterSecurityGroup")
        if security_group is None and asked.security_groups:
            security_group = eks_security_groups.of_cluster(name, arguments, self._within)
        subnets = self._subnets()
        cluster = self._cluster(role, service_role, security_group, subnets)
        provider = self._kubernetes(cluster)
        entries = eks_access.entries(name, cluster, arguments.get("accessEntries") or {}, self._within)
        self._addons(asked, cluster, entries)
        oidc = self._oidc_provider(cluster) if asked.oidc_provider else None
        node_group, ingress = None, None
        if asked.security_groups:
            node_group, ingress = eks_security_groups.of_nodes(
                name, arguments, cluster, security_group.id if security_group else "", self._within
            )
        own = cluster.vpc_config.apply(lambda config: config.cluster_security_group_id)
        config = self._kubeconfig(cluster, with_profile=False)
        issuer = cluster.identities.apply(_issuer)
        self.state = {
            "kubeconfig": config,
            "kubeconfigJson": pulumi.Output.json_dumps(config),
            "clusterSecurityGroup": security_group,
            "instanceRoles": [],
            "nodeSecurityGroup": node_group,
            "eksClusterIngressRule": ingress,
            "defaultNodeGroup": None,
            "eksCluster": cluster,
            "core": {
                "vpcId": arguments["vpcId"],
                "subnetIds": subnets,
                "publicSubnetIds": arguments.get("publicSubnetIds"),
                "privateSubnetIds": arguments.get("privateSubnetIds"),
                "clusterSecurityGroup": security_group,
                "cluster": cluster,
                "endpoint": cluster.endpoint,
                "nodeGroupOptions": {"version": arguments.get("version")},
                "kubeconfig": config,
                "provider": provider,
                "instanceRoles": [],
                "tags": arguments.get("tags"),
                "nodeSecurityGroupTags": arguments.get("nodeSecurityGroupTags"),
                "storageClasses": {},
                "oidcProvider": oidc,
                "encryptionConfig": self._encryption(),
                "clusterIamRole": role,
                "accessEntries": list((arguments.get("accessEntries") or {}).values()),
                "autoModeNodeRoleName": "",
            },
            "clusterSecurityGroupId": security_group.id if security_group else own,
            "nodeSecurityGroupId": node_group.id if node_group else own,
            "clusterIngressRuleId": ingress.security_group_rule_id if ingress else "",
            "defaultNodeGroupAsgName": "",
            "fargateProfileId": "",
            "fargateProfileStatus": "",
            "oidcProviderArn": oidc.arn if oidc else "",
            "oidcProviderUrl": issuer,
            "oidcIssuer": issuer.apply(lambda url: url.removeprefix("https://")),
            "autoModeNodeRoleName": "",
        }
        self.register_outputs(self.state)

    def _service_role(self, partition: pulumi.Output[str]) -> ServiceRole:
        return ServiceRole(
            f"{self._prefix}-eksRole",
            service="eks.amazonaws.com",
            description="Allows EKS to manage clusters on your behalf.",
            policies=("AmazonEKSClusterPolicy",),
            partition=partition,
            actions=("sts:AssumeRole", "sts:TagSession"),
            tags=self._arguments.get("tags"),
            opts=self._within,
        )

    def _subnets(self) -> Any:
        if (given := self._arguments.get("subnetIds")) is not None:
            return given
        both = [self._arguments.get(name) or [] for name in ("publicSubnetIds", "privateSubnetIds")]
        return pulumi.Output.all(*both).apply(lambda lists: [*lists[0], *lists[1]])

    def _encryption(self) -> Any:
        key = self._arguments.get("encryptionConfigKeyArn")
        return {"provider": {"keyArn": key}, "resources": ["secrets"]} if key else None

    def _cluster(self, role: Any, service_role: ServiceRole | None, security_group: Any, subnets: Any) -> Any:
        given = self._arguments
        tags = pulumi.Output.all(given.get("tags"), given.get("clusterTags")).apply(
            lambda both: {"Name": f"{self._prefix}-eksCluster", **(both[1] or {}), **(both[0] or {})}
        )
        network = {
            "service_ipv4_cidr": given.get("kubernetesServiceIpAddressRange"),
            "ip_family": given.get("ipFamily"),
        }
        properties: dict[str, Any] = {
            "name": given.get("name"),
            "role_arn": role.arn,
            "kubernetes_network_config": _set(network) or None,
            "bootstrap_self_managed_addons": given.get("bootstrapSelfManagedAddons", True),
            "vpc_config": _set(
                {
                    "security_group_ids": [security_group.id] if security_group else None,
                    "subnet_ids": subnets,
                    "endpoint_private_access": given.get("endpointPrivateAccess"),
                    "endpoint_public_access": given.get("endpointPublicAccess"),
                    "public_access_cidrs": given.get("publicAccessCidrs"),
                }
            ),
            "version": given.get("version"),
            "enabled_cluster_log_types": given.get("enabledClusterLogTypes"),
            "tags": tags,
            "encryption_config": self._encryption(),
            "access_config": {
                "authentication_mode": given["authenticationMode"],
                "bootstrap_cluster_creator_admin_permissions": True,
            },
            "upgrade_policy": given.get("upgradePolicy"),
            "deletion_protection": given.get("deletionProtection"),
        }
        opts = pulumi.ResourceOptions(
            parent=self,
            ignore_changes=["accessConfig.bootstrapClusterCreatorAdminPermissions", "bootstrapSelfManagedAddons"],
            # Without its policies the role is not yet one that EKS can use.
            depends_on=[service_role.direct, *service_role.attached] if service_role else None,
        )
        return aws.eks.Cluster(f"{self._prefix}-eksCluster", opts=opts, **properties)

    def _credentials(self) -> Any:
        if (given := self._arguments.get("providerCredentialOpts")) is not None:
            return given
        profile = pulumi.Config("aws").get("profile") or os.environ.get("AWS_PROFILE")
        return {"profileName": profile} if profile else None

    def _kubeconfig(self, cluster: Any, *, with_profile: bool) -> pulumi.Output[Any]:
        certificate = cluster.certificate_authority.apply(lambda authority: authority.data)
        return pulumi.Output.all(cluster.name, cluster.endpoint, cluster.arn, certificate, self._credentials()).apply(
            lambda found: kubeconfig(
                cluster=found[0],
                endpoint=found[1],
                region=region_of(found[2]),
                certificate=found[3],
                credentials=found[4],
                with_profile=with_profile,
            )
        )

    def _kubernetes(self, cluster: Any) -> kubernetes.Provider:
        return kubernetes.Provider(
            f"{self._prefix}-eks-k8s",
            kubeconfig=self._kubeconfig(cluster, with_profile=True).apply(_compact),
            enable_config_map_mutable=self._arguments.get("enableConfigMapMutable"),
            opts=self._within,
        )

    def _addons(self, asked: Children, cluster: Any, entries: list[Any]) -> None:
        given = self._arguments
        if asked.kube_proxy:
            options = given.get("kubeProxyAddonOptions") or {}
            eks_addons.plain(self._prefix, "kube-proxy", options, cluster, given.get("tags"), self._within)
        if asked.vpc_cni:
            opts = pulumi.ResourceOptions(parent=self, depends_on=entries)
            eks_addons.VpcCniAddon(
                f"{self._prefix}-vpc-cni", given.get("vpcCniOptions") or {}, cluster, given.get("tags"), opts
            )
        if asked.coredns:
            options = given.get("corednsAddonOptions") or {}
            eks_addons.plain(self._prefix, "coredns", options, cluster, given.get("tags"), self._within)

    def _oidc_provider(self, cluster: Any) -> aws.iam.OpenIdConnectProvider:
        return aws.iam.OpenIdConnectProvider(
            f"{self._prefix}-oidcProvider",
            client_id_lists=["sts.amazonaws.com"],
            url=cluster.identities.apply(_issuer),
            thumbprint_lists=[THUMBPRINT],
            opts=self._within,
        )


def _issuer(identities: Any) -> str:
    return str(identities[0].oidcs[0].issuer) if identities and identities[0].oidcs else ""


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
