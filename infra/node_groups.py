"""The EKS managed node groups, on launch templates of our own: what a preview shows is all there is.

What a change does, by the provider's own rules (terraform-provider-aws, internal/service/eks/node_group.go):
- EKS rolls nodes before it changes their number: a group on its way to none must not get a new version with it.
- Another subnet (zone), instance type, AMI type, market, role or template id makes another node group.
- A new version of the template (disk, tags, security groups, EFA, placement group, reservation), AMI release or
  Kubernetes version rolls the nodes of the group that is there; size, labels and taints change it in place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.instances import InstanceType
from infra.launch_template import (
    CAPACITY_TYPES,
    SYSTEM_IOPS,
    SYSTEM_THROUGHPUT,
    Disk,
    gpu_template,
    instance_types,
    node_template,
    scaling,
)
from infra.ray_cluster_spec import GPU, GPU_NODE_LABEL

# EKS itself gives up on nodes that don't come after 15 to 30 minutes.
_CREATE = "30m"


@dataclass(frozen=True, kw_only=True)
class NodeRoleArgs:
    """`cni`: the nodes carry the VPC CNI's rights, as it has no Pod Identity role of its own."""

    partition: str
    cni: bool = True


class NodeRole(pulumi.ComponentResource):
    """Nodes work only with `policies` attached; no value carries that, so node groups name them in `after`."""

    role_arn: pulumi.Output[str]
    role: aws.iam.Role
    policies: list[pulumi.Resource]

    def __init__(self, name: str, args: NodeRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:NodeRole", name, None, opts)
        own = pulumi.ResourceOptions(parent=self)
        trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
        self.role = aws.iam.Role(
            f"{name}-role",
            assume_role_policy=pulumi.Output.json_dumps({"Version": "2012-10-17", "Statement": [trust]}),
            opts=own,
        )
        needed = ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"]
        if args.cni:
            needed.append("AmazonEKS_CNI_Policy")
        self.policies = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy}",
                role=self.role.name,
                policy_arn=f"arn:{args.partition}:iam::aws:policy/{policy}",
                opts=own,
            )
            for policy in needed
        ]
        self.role_arn = self.role.arn
        self.register_outputs({"roleArn": self.role_arn})


@dataclass(frozen=True, kw_only=True)
class SystemNodesArgs:
    """`label` is the nodes' Name; `tags` are all tags that they, their disks and interfaces get.

    `after`: the role's policies, a way to images, and the add-ons without which a node is not Ready.
    """

    label: str
    cluster_name: pulumi.Input[str]
    version: str
    role_arn: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    instance_type: str
    nodes: int
    disk_gib: int
    tags: Mapping[str, str]
    cluster_security_group: pulumi.Input[str]
    after: Sequence[pulumi.Resource]


class SystemNodes(pulumi.ComponentResource):
    """The untainted nodes of kube-system, KubeRay and the Ray head. `revision` as in GpuNodes."""

    resource: aws.eks.NodeGroup
    revision: pulumi.Output[str]

    def __init__(self, name: str, args: SystemNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:SystemNodes", name, None, opts)
        template = aws.ec2.LaunchTemplate(
            f"{name}-template",
            **node_template(
                security_groups=[args.cluster_security_group],
                disk=Disk(gib=args.disk_gib, throughput=SYSTEM_THROUGHPUT, iops=SYSTEM_IOPS),
                tags={**args.tags, "Name": args.label},
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        # A name of Pulumi's making, so that a group's successor is there before it goes: these nodes can be had twice.
        self.resource = aws.eks.NodeGroup(
            f"{name}-group",
            cluster_name=args.cluster_name,
            version=args.version,
            node_role_arn=args.role_arn,
            subnet_ids=args.subnet_ids,
            ami_type="AL2023_x86_64_STANDARD",
            capacity_type="ON_DEMAND",
            instance_types=[args.instance_type],
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(**scaling(args.nodes)),
            launch_template=_latest(template),
            opts=_node_group_options(self, args.after),
        )
        self.revision = _revision(self.resource)
        self.register_outputs({"nodeGroup": self.resource.node_group_name, "revision": self.revision})


@dataclass(frozen=True, kw_only=True)
class GpuNodesArgs:
    """`group_name` is the node group's in the cluster. `ami_release` empty takes EKS's newest when the group is made.

    `reservation` and `placement_group` come from one Reservation; `market` is on-demand, spot or capacity-block. `roll`
    false leaves running nodes on the version of the template that they have. `tags` and `after` as in SystemNodesArgs.
    """

    group_name: str
    cluster_name: pulumi.Input[str]
    version: str
    role_arn: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    vpc_id: pulumi.Input[str]
    instance: InstanceType
    nodes: int
    disk_gib: int
    disk_throughput: int
    disk_iops: int
    ami_release: str
    labels: Mapping[str, str]
    tags: Mapping[str, str]
    cluster_security_group: pulumi.Input[str]
    market: str
    reservation: pulumi.Input[str] | None
    placement_group: pulumi.Input[str] | None
    other_security_groups: Sequence[str]
    roll: bool
    after: Sequence[pulumi.Resource]


class GpuNodes(pulumi.ComponentResource):
    """The worker nodes, in one zone and tainted. `security_group` is their own: EFA passes within it alone.

    `revision` is another text for other nodes, and no text at all for a group that failed when it was made.
    """

    resource: aws.eks.NodeGroup
    revision: pulumi.Output[str]
    security_group: pulumi.Output[str]

    def __init__(self, name: str, args: GpuNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:GpuNodes", name, None, opts)
        # An egress rule for addresses, 0.0.0.0/0 included, does not cover EFA: it needs the group itself both ways.
        # EKS's own group has such rules already (a second copy is refused), but only from some versions on.
        within: dict[str, Any] = {"protocol": "-1", "from_port": 0, "to_port": 0, "self": True}
        group = aws.ec2.SecurityGroup(
            f"{name}-efa",
            description="GPU nodes: EFA among themselves",
            vpc_id=args.vpc_id,
            ingress=[aws.ec2.SecurityGroupIngressArgs(**within)],
            egress=[aws.ec2.SecurityGroupEgressArgs(**within)],
            tags={"Name": args.group_name},
            opts=pulumi.ResourceOptions(parent=self),
        )
        template = aws.ec2.LaunchTemplate(
            f"{name}-template",
            **gpu_template(
                instance=args.instance,
                # EKS adds its own group only where a template names none.
                security_groups=[args.cluster_security_group, group.id, *args.other_security_groups],
                disk=Disk(gib=args.disk_gib, throughput=args.disk_throughput, iops=args.disk_iops),
                tags={**args.tags, "Name": args.group_name},
                market=args.market,
                reservation=args.reservation,
                placement_group=args.placement_group,
            ),
            # A capacity block's type stands here: another one makes another node group, as it does for every market.
            opts=pulumi.ResourceOptions(parent=self, replace_on_changes=["instanceType"]),
        )
        self.resource = aws.eks.NodeGroup(
            f"{name}-group",
            # A fixed name: a group that an interrupted update left behind holds the reservation, and must be met with
            # "already exists" and not with a second group that waits for capacity.
            node_group_name=args.group_name,
            cluster_name=args.cluster_name,
            version=args.version,
            release_version=args.ami_release or None,
            node_role_arn=args.role_arn,
            subnet_ids=[args.subnet_id],
            ami_type="AL2023_x86_64_NVIDIA",
            capacity_type=CAPACITY_TYPES[args.market],
            instance_types=instance_types(args.instance, args.market),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(**scaling(args.nodes)),
            # An exactly sized reservation has no room to launch first. All nodes at once: no job runs on some of them.
            update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable_percentage=100, update_strategy="MINIMAL"),
            labels={**args.labels, GPU_NODE_LABEL: "true"},
            taints=[aws.eks.NodeGroupTaintArgs(key=GPU, value="present", effect="NO_SCHEDULE")],
            launch_template=_latest(template),
            # Neither the reservation nor the name has room for two.
            opts=pulumi.ResourceOptions.merge(
                _node_group_options(self, args.after, delete_before_replace=True),
                pulumi.ResourceOptions(ignore_changes=[] if args.roll else ["launchTemplate"]),
            ),
        )
        self.security_group = group.id
        self.revision = _revision(self.resource)
        self.register_outputs({"securityGroup": self.security_group, "revision": self.revision})


def _revision(group: aws.eks.NodeGroup) -> pulumi.Output[str]:
    return pulumi.Output.all(
        name=group.node_group_name, status=group.status, version=group.launch_template.version, urn=group.urn
    ).apply(lambda seen: _made(**seen))


def _made(*, name: str, status: str | None, version: str, urn: str) -> str:
    """A failed group stays in the state, and the next update of it, which changes nothing, would pass."""
    if status in ("CREATE_FAILED", "DELETE_FAILED", "DEGRADED"):
        raise pulumi.RunError(
            f"node group {name} is {status}: aws eks describe-nodegroup says why. `pulumi up --refresh` tries again "
            f"what an update left undone; `pulumi up --replace '{urn}'` makes the group anew"
        )
    return f"{name}, template version {version}"


def _latest(template: aws.ec2.LaunchTemplate) -> aws.eks.NodeGroupLaunchTemplateArgs:
    return aws.eks.NodeGroupLaunchTemplateArgs(id=template.id, version=template.latest_version.apply(str))


def _node_group_options(
    parent: pulumi.Resource, after: Sequence[pulumi.Resource], *, delete_before_replace: bool = False
) -> pulumi.ResourceOptions:
    """No value flows from policies, routes and add-ons, but nodes that come before them never turn Ready."""
    return pulumi.ResourceOptions(
        parent=parent,
        depends_on=list(after),
        custom_timeouts=pulumi.CustomTimeouts(create=_CREATE),
        delete_before_replace=delete_before_replace or None,
    )
