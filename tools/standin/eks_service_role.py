"""pulumi-eks's ServiceRole: a role for one AWS service, with managed policies."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws


class ServiceRole(pulumi.ComponentResource):
    direct: aws.iam.Role
    attached: list[aws.iam.RolePolicyAttachment]

    def __init__(
        self,
        name: str,
        *,
        service: str,
        description: str,
        policies: Sequence[str],
        partition: pulumi.Input[str],
        actions: Sequence[str],
        tags: pulumi.Input[Mapping[str, Any]] | None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("eks:index:ServiceRole", name, None, opts)
        trust = {
            "Version": "2012-10-17",
            "Statement": [{"Action": list(actions), "Effect": "Allow", "Principal": {"Service": [service]}}],
        }
        within = pulumi.ResourceOptions(parent=self)
        self.direct = aws.iam.Role(
            f"{name}-role",
            description=description,
            assume_role_policy=json.dumps(trust, separators=(",", ":")),
            tags=tags,
            opts=within,
        )
        self.attached = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{_short_hash(f'arn:aws:iam::aws:policy/{policy}')}",
                policy_arn=pulumi.Output.concat("arn:", partition, ":iam::aws:policy/", policy),
                role=self.direct.name,
                opts=within,
            )
            for policy in policies
        ]
        self.register_outputs({"directRole": self.direct})


def _short_hash(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]
