"""Where checkpoints go on eks: a bucket that Ray's pods may use, a Lustre volume, or a claim as anywhere else."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.bucket_access import access_policy, parsed
from infra.lustre_volume import LustreVolume, LustreVolumeArgs
from infra.pod_identity import PodRole
from infra.storage_bucket import StorageBucket, StorageBucketArgs


@dataclass(frozen=True, kw_only=True)
class EksStorageArgs:
    """`kind` is bucket, fsx or claim. `path` is a folder, or for a bucket that is there its s3:// URI.

    `service_account` in `namespace` is who Ray's pods run as. The `fsx_...`, network and node values are for fsx,
    and so is `goes_with`: what takes the objects in the cluster along when it is deleted.
    """

    name: str
    kind: str
    path: str
    expire_days: int
    keep: bool
    partition: str
    version: str
    cluster_name: pulumi.Input[str]
    namespace: pulumi.Input[str]
    service_account: str
    fsx_gib: int
    fsx_throughput: int
    vpc_id: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    node_security_groups: Sequence[pulumi.Input[str]]
    system_nodes: Sequence[pulumi.Resource]
    billed_after: Sequence[pulumi.Resource] = ()
    goes_with: pulumi.Resource | None = None


class EksStorage(pulumi.ComponentResource):
    """`uri` is the bucket's folder, "" for other kinds; `volume` a PersistentVolume's name to claim, None for none.

    Ray's pods must not start before `ready`. Of fsx the Kubernetes provider comes with the options.
    """

    uri: pulumi.Output[str]
    volume: pulumi.Output[str] | None
    ready: Sequence[pulumi.Resource]

    def __init__(self, name: str, args: EksStorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:EksStorage", name, None, opts)
        self.uri, self.volume, self.ready = pulumi.Output.from_input(""), None, []
        if args.kind == "bucket":
            self._bucket(name, args)
        elif args.kind == "fsx":
            self._lustre(name, args)
        self.register_outputs({"uri": self.uri, "volume": self.volume})

    def _bucket(self, name: str, args: EksStorageArgs) -> None:
        arn: pulumi.Output[str]
        if args.path.startswith("s3://"):
            given, path = parsed(args.path)
            arn = pulumi.Output.from_input(f"arn:{args.partition}:s3:::{given}")
            self.uri = pulumi.Output.from_input(args.path)
        else:
            path = args.path
            made = StorageBucket(
                f"{name}-bucket",
                StorageBucketArgs(name=args.name, path=path, expire_days=args.expire_days, keep=args.keep),
                pulumi.ResourceOptions(parent=self),
            )
            arn = made.arn
            self.uri = pulumi.Output.format("s3://{0}/{1}", made.bucket, path)
        role = PodRole(
            f"{name}-access",
            description=f"Checkpoints of {args.name}",
            policy=arn.apply(lambda of: access_policy(of, path)),
            opts=pulumi.ResourceOptions(parent=self),
        )
        association = aws.eks.PodIdentityAssociation(
            f"{name}-identity",
            cluster_name=args.cluster_name,
            namespace=args.namespace,
            service_account=args.service_account,
            role_arn=role.arn,
            opts=pulumi.ResourceOptions(parent=self),
        )
        # EKS gives an identity to pods only when they are created, so it must be there before them.
        self.ready = [role.ready, association]

    def _lustre(self, name: str, args: EksStorageArgs) -> None:
        lustre = LustreVolumeArgs(
            name=args.name,
            gib=args.fsx_gib,
            throughput=args.fsx_throughput,
            keep=args.keep,
            cluster_name=args.cluster_name,
            version=args.version,
            vpc_id=args.vpc_id,
            subnet_id=args.subnet_id,
            node_security_groups=args.node_security_groups,
            system_nodes=args.system_nodes,
            billed_after=args.billed_after,
            goes_with=args.goes_with,
        )
        made = LustreVolume(f"{name}-lustre", lustre, pulumi.ResourceOptions(parent=self))
        self.volume, self.ready = made.volume, made.ready
