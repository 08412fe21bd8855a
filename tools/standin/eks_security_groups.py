"""The security groups that pulumi-eks makes unless `skipDefaultSecurityGroups` is set: open to the world outwards."""

# Annotations that are evaluated would import aws.ec2, a third of a second, where no group is made.
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws

ANYWHERE: dict[str, Any] = {"from_port": 0, "to_port": 0, "protocol": "-1"}


def of_cluster(name: str, given: Mapping[str, Any], opts: pulumi.ResourceOptions) -> aws.ec2.SecurityGroup:
    group = aws.ec2.SecurityGroup(
        f"{name}-eksClusterSecurityGroup",
        vpc_id=given["vpcId"],
        revoke_rules_on_delete=True,
        tags=_tags(f"{name}-eksClusterSecurityGroup", given.get("clusterSecurityGroupTags"), given.get("tags")),
        opts=opts,
    )
    aws.ec2.SecurityGroupRule(
        f"{name}-eksClusterInternetEgressRule",
        description="Allow internet access.",
        type="egress",
        cidr_blocks=["0.0.0.0/0"],
        security_group_id=group.id,
        opts=opts,
        **ANYWHERE,
    )
    return group


def of_nodes(
    name: str, given: Mapping[str, Any], cluster: Any, cluster_group: Any, opts: pulumi.ResourceOptions
) -> tuple[aws.ec2.SecurityGroup, aws.ec2.SecurityGroupRule]:
    """The nodes' group and the rule by which they reach the API server."""
    owned = cluster.name.apply(lambda cluster_name: {f"kubernetes.io/cluster/{cluster_name}": "owned"})
    group = aws.ec2.SecurityGroup(
        f"{name}-nodeSecurityGroup",
        vpc_id=given["vpcId"],
        revoke_rules_on_delete=True,
        tags=_tags(f"{name}-nodeSecurityGroup", owned, given.get("nodeSecurityGroupTags"), given.get("tags")),
        opts=opts,
    )
    rules: tuple[tuple[str, str, dict[str, Any]], ...] = (
        (
            "eksNodeIngressRule",
            "Allow nodes to communicate with each other",
            {"type": "ingress", **ANYWHERE, "self": True},
        ),
        (
            "eksNodeClusterIngressRule",
            "Allow worker Kubelets and pods to receive communication from the cluster control plane",
            {"type": "ingress", "from_port": 1025, "to_port": 65535, "source_security_group_id": cluster_group},
        ),
        (
            "eksExtApiServerClusterIngressRule",
            "Allow pods running extension API servers on port 443 to receive communication from cluster control plane",
            {"type": "ingress", "from_port": 443, "to_port": 443, "source_security_group_id": cluster_group},
        ),
        (
            "eksNodeInternetEgressRule",
            "Allow internet access.",
            {"type": "egress", **ANYWHERE, "cidr_blocks": ["0.0.0.0/0"]},
        ),
    )
    for rule, description, what in rules:
        aws.ec2.SecurityGroupRule(
            f"{name}-{rule}",
            description=description,
            security_group_id=group.id,
            opts=opts,
            **{"protocol": "tcp", **what},
        )
    ingress = aws.ec2.SecurityGroupRule(
        f"{name}-eksClusterIngressRule",
        description="Allow pods to communicate with the cluster API Server",
        type="ingress",
        from_port=443,
        to_port=443,
        protocol="tcp",
        security_group_id=cluster_group,
        source_security_group_id=group.id,
        opts=opts,
    )
    return group, ingress


def _tags(name: str, *given: Any) -> pulumi.Output[dict[str, str]]:
    """Later ones win."""
    return pulumi.Output.all(*given).apply(
        lambda all_: {"Name": name, **{key: value for tags in all_ for key, value in (tags or {}).items()}}
    )
