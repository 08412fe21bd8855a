"""The end of the GPU nodes at a fixed time, kept by AWS: it comes whether or not anybody's machine is on."""

import json
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.aws_facts import AwsFacts
from infra.eks_settings import EksSettings
from infra.launch_template import scaling

# A universal target: arn:PARTITION:scheduler:::aws-sdk:SERVICE:ACTION
# (docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html).
_TARGET = "aws-sdk:eks:updateNodegroupConfig"


@dataclass(frozen=True, kw_only=True)
class TtlArgs:
    """`until` is UTC (2026-12-01T18:00:00Z). The node group need not be there yet: it is meant by its name."""

    until: str
    cluster_name: pulumi.Input[str]
    group_name: str
    region: str
    account: str
    partition: str


class TtlSchedule(pulumi.ComponentResource):
    """A one-time schedule that scales the node group to none, with a role that may do that alone.

    EventBridge goes on trying for a day where EKS refuses, as it does during another update of the group. What it did
    is not in the stack's state: `pulumi refresh` reads it.
    """

    schedule: aws.scheduler.Schedule

    @classmethod
    def of(
        cls,
        name: str,
        settings: EksSettings,
        facts: AwsFacts,
        cluster_name: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
    ) -> "TtlSchedule":
        args = TtlArgs(
            until=settings.guards.ttl_until,
            cluster_name=cluster_name,
            group_name=settings.gpu_group,
            region=settings.aws.region,
            account=facts.account,
            partition=facts.partition,
        )
        return cls(name, args, opts)

    def __init__(self, name: str, args: TtlArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:TtlSchedule", name, None, opts)
        own = pulumi.ResourceOptions(parent=self)
        role = aws.iam.Role(
            f"{name}-role",
            description=f"Scales {args.group_name} to none",
            assume_role_policy=json.dumps(trust(args.account)),
            opts=own,
        )
        allowed = aws.iam.RolePolicy(
            f"{name}-policy",
            role=role.name,
            policy=pulumi.Output.json_dumps(
                pulumi.Output.from_input(args.cluster_name).apply(lambda of: right(args, of))
            ),
            opts=own,
        )
        self.schedule = aws.scheduler.Schedule(
            f"{name}-schedule",
            # A second one of that group is refused, should an `up` that was killed have left one.
            name=f"{args.group_name}-ttl",
            description=f"GPU nodes of {args.group_name} end (ttlUntil)",
            schedule_expression=f"at({args.until.removesuffix('Z')})",
            schedule_expression_timezone="UTC",
            flexible_time_window=aws.scheduler.ScheduleFlexibleTimeWindowArgs(mode="OFF"),
            # Deleting itself, it would be missing to the next refresh, and be made anew.
            action_after_completion="NONE",
            target=aws.scheduler.ScheduleTargetArgs(
                arn=f"arn:{args.partition}:scheduler:::{_TARGET}",
                role_arn=role.arn,
                input=pulumi.Output.json_dumps(
                    {
                        # The SDK's names in PascalCase, as universal targets have them, not those of EKS's own JSON.
                        "ClusterName": args.cluster_name,
                        "NodegroupName": args.group_name,
                        "ScalingConfig": _scaling_to_none(),
                    }
                ),
            ),
            # No value says that the role may do it.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[allowed]),
        )
        self.register_outputs({"schedule": self.schedule.name})


def trust(account: str) -> dict[str, Any]:
    """Without aws:SourceArn: EventBridge tries the role before the schedule, and so its ARN, is there."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "scheduler.amazonaws.com"},
                "Action": "sts:AssumeRole",
                "Condition": {"StringEquals": {"aws:SourceAccount": account}},
            }
        ],
    }


def right(args: TtlArgs, cluster: str) -> dict[str, Any]:
    """A node group's ARN ends in an id that EKS gives it: the group is meant by cluster and name."""
    group = f"arn:{args.partition}:eks:{args.region}:{args.account}:nodegroup/{cluster}/{args.group_name}/*"
    statement = {"Effect": "Allow", "Action": "eks:UpdateNodegroupConfig", "Resource": group}
    return {"Version": "2012-10-17", "Statement": [statement]}


def _scaling_to_none() -> dict[str, int]:
    """What the program itself says of a group without nodes."""
    none = scaling(0)
    return {"MinSize": none["min_size"], "DesiredSize": none["desired_size"], "MaxSize": none["max_size"]}
