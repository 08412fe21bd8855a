"""IAM roles that pods of an EKS cluster take through the Pod Identity agent on their node."""

import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws

TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
        }
    ],
}


class PodRole(pulumi.ComponentResource):
    """A role with the AWS-managed policy `managed` (an ARN), or with `policy` of its own alone.

    `ready` is what must be there before a pod uses `arn`.
    """

    arn: pulumi.Output[str]
    ready: pulumi.Resource

    def __init__(
        self,
        name: str,
        *,
        description: str,
        managed: str = "",
        policy: pulumi.Input[Mapping[str, Any]] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-train-efa:infra:PodRole", name, None, opts)
        own = pulumi.ResourceOptions(parent=self)
        role = aws.iam.Role(f"{name}-role", description=description, assume_role_policy=json.dumps(TRUST), opts=own)
        if managed:
            self.ready = aws.iam.RolePolicyAttachment(f"{name}-policy", role=role.name, policy_arn=managed, opts=own)
        else:
            self.ready = aws.iam.RolePolicy(
                f"{name}-policy", role=role.name, policy=pulumi.Output.json_dumps(policy), opts=own
            )
        self.arn = role.arn
        self.register_outputs({"arn": self.arn})
