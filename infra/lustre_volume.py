"""A file system of FSx for Lustre, as a PersistentVolume of the cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from infra import versions
from infra.core_addons import eks_addon
from infra.pod_identity import PodRole
from infra.ray_cluster_spec import STACK_LABEL

# LNET, from either side: docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html
_PORTS = ((988, 988), (1018, 1023))
_LUSTRE = "2.15"
# It makes file systems in minutes, large ones in half an hour.
_TIMEOUTS = pulumi.CustomTimeouts(create="45m", update="45m", delete="30m")
# The volume names its file system, so the driver has nothing to make; it only looks it up.
_DRIVER_POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "fsx:DescribeFileSystems", "Resource": "*"}],
}


@dataclass(frozen=True, kw_only=True)
class LustreVolumeArgs:
    """`gib` of capacity with `throughput` MB/s for each TiB, in the subnet of the nodes that write most.

    `node_security_groups` are those of the nodes that mount it; rules are added to them. `version` is the cluster's.
    """

    name: str
    gib: int
    throughput: int
    keep: bool
    cluster_name: pulumi.Input[str]
    version: str
    vpc_id: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    node_security_groups: Sequence[pulumi.Input[str]]
    system_nodes: Sequence[pulumi.Resource]
    billed_after: Sequence[pulumi.Resource]
    goes_with: pulumi.Resource | None = None

    @property
    def volume(self) -> str:
        """The PersistentVolume's name, one in the cluster."""
        return f"{self.name.lower()}-lustre"


class LustreVolume(pulumi.ComponentResource):
    """`volume` is the PersistentVolume's name; `ready` is what a pod that mounts it needs.

    The Kubernetes provider comes with the options.
    """

    ready: Sequence[pulumi.Resource]
    volume: pulumi.Output[str]

    def __init__(self, name: str, args: LustreVolumeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:LustreVolume", name, None, opts)
        files = self._file_system(name, args)
        volume = k8s.core.v1.PersistentVolume(
            f"{name}-volume",
            metadata={"name": args.volume, "labels": {STACK_LABEL: pulumi.get_stack()}},
            spec=_volume_spec(args, files),
            opts=pulumi.ResourceOptions(parent=self, deleted_with=args.goes_with),
        )
        role = PodRole(
            f"{name}-csi",
            description="Looks up the file system of checkpoints",
            policy=_DRIVER_POLICY,
            opts=pulumi.ResourceOptions(parent=self),
        )
        driver = eks_addon(
            f"{name}-csi",
            args.cluster_name,
            "aws-fsx-csi-driver",
            versions.EKS[args.version].fsx_csi,
            role=("fsx-csi-controller-sa", role),
            parent=self,
            after=args.system_nodes,
        )
        # Of the volume that is there: a claim is bound to one, and goes before it.
        self.volume = volume.metadata.name
        self.ready = [volume, driver]
        self.register_outputs({"fileSystem": files.id})

    def _file_system(self, name: str, args: LustreVolumeArgs) -> aws.fsx.LustreFileSystem:
        own = pulumi.ResourceOptions(parent=self)
        kept = pulumi.ResourceOptions(parent=self, retain_on_delete=args.keep)
        rules: list[Any] = [
            {
                "protocol": "tcp",
                "from_port": first,
                "to_port": last,
                "security_groups": [*args.node_security_groups],
                "self": True,
            }
            for first, last in _PORTS
        ]
        group = aws.ec2.SecurityGroup(
            f"{name}-security-group",
            vpc_id=args.vpc_id,
            description="Lustre, between its servers and the nodes",
            ingress=rules,
            egress=rules,
            tags={"Name": f"{args.name}-lustre"},
            opts=kept,
        )
        for index, node_group in enumerate(args.node_security_groups):
            for first, last in _PORTS:
                aws.vpc.SecurityGroupIngressRule(
                    f"{name}-to-nodes-{index}-{first}",
                    security_group_id=node_group,
                    referenced_security_group_id=group.id,
                    description="Lustre servers call their clients back",
                    ip_protocol="tcp",
                    from_port=first,
                    to_port=last,
                    opts=own,
                )
        return aws.fsx.LustreFileSystem(
            f"{name}-files",
            deployment_type="PERSISTENT_2",
            storage_type="SSD",
            storage_capacity=args.gib,
            per_unit_storage_throughput=args.throughput,
            file_system_type_version=_LUSTRE,
            data_compression_type="LZ4",
            subnet_ids=args.subnet_id,
            security_group_ids=[group.id],
            tags={"Name": f"{args.name}-lustre"},
            opts=pulumi.ResourceOptions(
                parent=self,
                retain_on_delete=args.keep,
                custom_timeouts=_TIMEOUTS,
                # No value says that capacity is certain.
                depends_on=[*args.billed_after],
            ),
        )


def _volume_spec(args: LustreVolumeArgs, files: aws.fsx.LustreFileSystem) -> Any:
    return {
        "capacity": {"storage": f"{args.gib}Gi"},
        "volumeMode": "Filesystem",
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "mountOptions": ["flock"],
        "csi": {
            "driver": "fsx.csi.aws.com",
            "volumeHandle": files.id,
            "volumeAttributes": {"dnsname": files.dns_name, "mountname": files.mount_name},
        },
    }
