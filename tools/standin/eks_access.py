"""The access entries that pulumi-eks makes of `accessEntries`."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws


def entries(
    name: str, cluster: Any, given: Mapping[str, Mapping[str, Any]], within: pulumi.ResourceOptions
) -> list[aws.eks.AccessEntry]:
    """One entry each, with its policy associations below it."""
    after_cluster = pulumi.ResourceOptions.merge(within, pulumi.ResourceOptions(depends_on=[cluster]))
    return [_entry(f"{name}-{key}", cluster, entry, after_cluster) for key, entry in given.items()]


def _entry(name: str, cluster: Any, entry: Mapping[str, Any], opts: pulumi.ResourceOptions) -> aws.eks.AccessEntry:
    made = aws.eks.AccessEntry(
        name,
        cluster_name=cluster.name,
        principal_arn=entry["principalArn"],
        kubernetes_groups=entry.get("kubernetesGroups"),
        tags=entry.get("tags"),
        type=entry.get("type"),
        user_name=entry.get("username"),
        opts=opts,
    )
    for key, policy in (entry.get("accessPolicies") or {}).items():
        association = pulumi.Output.from_input(policy)
        aws.eks.AccessPolicyAssociation(
            f"{name}-{key}",
            access_scope=association.apply(lambda one: one["accessScope"]),
            principal_arn=entry["principalArn"],
            policy_arn=association.apply(lambda one: one["policyArn"]),
            cluster_name=cluster.name,
            opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(parent=made, depends_on=[made])),
        )
    return made
