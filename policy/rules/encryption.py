"""What is written down is encrypted: node disks, volumes, buckets, Kubernetes Secrets, file systems."""

from collections.abc import Iterator, Sequence
from typing import Any

from .resources import BUCKET, LAUNCH_TEMPLATE, UNKNOWN, Resource, ResourceRule, StackRule, at, mappings, of_type, true

_BUCKET_ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
_BUCKET_BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
_BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
_VOLUME, _CLUSTER = "aws:ebs/volume:Volume", "aws:eks/cluster:Cluster"
_LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"


def disks_are_encrypted(template: Resource) -> Iterator[str]:
    if template.type == _VOLUME:
        if not _yes(template.props.get("encrypted")):
            yield "encrypted is not set: set it to true"
        return
    devices = template.props.get("blockDeviceMappings")
    if devices is UNKNOWN:
        return
    if not mappings(devices):
        yield (
            "it declares no disk, so its nodes get the image's, encrypted or not: add blockDeviceMappings with "
            "ebs.encrypted"
        )
    for device in mappings(devices):
        if "ebs" in device and not _yes(at(device, "ebs", "encrypted")):
            yield f"disk {device.get('deviceName')} is not encrypted: set ebs.encrypted to true"


def secrets_are_encrypted(cluster: Resource) -> Iterator[str]:
    config = cluster.props.get("encryptionConfig")
    resources = at(config, "resources")
    if config is UNKNOWN or resources is UNKNOWN:
        return
    if "secrets" not in (resources or []) or not at(config, "provider", "keyArn"):
        yield (
            "it has no encryptionConfig for secrets, so Kubernetes Secrets have no key of this account: set "
            "encryptionConfig with resources [secrets] and the ARN of a KMS key"
        )


def file_system_is_encrypted(system: Resource) -> Iterator[str]:
    """Always at rest; on the way to clients only with the second generation (FSx for Lustre, data encryption)."""
    if system.props.get("deploymentType") not in ("PERSISTENT_2", "SCRATCH_2", UNKNOWN):
        yield (
            f"deploymentType {system.props.get('deploymentType') or 'SCRATCH_1 (the default)'} does not encrypt what "
            "is on its way to clients: set it to PERSISTENT_2"
        )


def buckets_are_closed(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str]]:
    for bucket in of_type(resources, BUCKET):
        if not bucket.props.get("serverSideEncryptionConfiguration") and not any(
            bucket in encryption.refs.get("bucket", ()) for encryption in of_type(resources, _BUCKET_ENCRYPTION)
        ):
            yield (
                bucket,
                "its encryption is not declared: add a BucketServerSideEncryptionConfiguration (AES256 or aws:kms)",
            )
        blocks = [block for block in of_type(resources, _BUCKET_BLOCK) if bucket in block.refs.get("bucket", ())]
        if not any(all(_yes(block.props.get(name)) for name in _BLOCKS) for block in blocks):
            yield bucket, f"public access is not blocked: add a BucketPublicAccessBlock with {', '.join(_BLOCKS)}"


def _yes(value: Any) -> bool:
    """An unknown value gets the benefit of the doubt."""
    return value is UNKNOWN or true(value)


RESOURCE_RULES = (
    ResourceRule(
        name="disks-encrypted",
        description="Disks of nodes and volumes are encrypted.",
        types=(LAUNCH_TEMPLATE, _VOLUME),
        check=disks_are_encrypted,
    ),
    ResourceRule(
        name="kubernetes-secrets-encrypted",
        description="EKS encrypts Kubernetes Secrets with a key of the account.",
        types=(_CLUSTER,),
        check=secrets_are_encrypted,
    ),
    ResourceRule(
        name="file-system-encrypted",
        description="A Lustre file system is encrypted at rest and on the way.",
        types=(_LUSTRE,),
        check=file_system_is_encrypted,
    ),
)
STACK_RULES = (
    StackRule(
        name="buckets-closed",
        description="A bucket's encryption is declared and its public access blocked.",
        check=buckets_are_closed,
    ),
)
