"""A bucket for checkpoints: private, encrypted, versioned, tidied up."""

import json
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.bucket_access import prefix, tls_only

# S3 takes prefixes of at most 37 characters and completes them to a name that is free.
_PREFIX_LENGTH = 36
# How long a file that was replaced or deleted can be brought back; an upload that was cut off is of no use.
_NONCURRENT_DAYS, _INCOMPLETE_DAYS = 7, 2


@dataclass(frozen=True, kw_only=True)
class StorageBucketArgs:
    """`path` is the folder in it; files there go after `expire_days`, 0 for never. `keep` leaves it at destroy."""

    name: str
    path: str
    expire_days: int
    keep: bool


class StorageBucket(pulumi.ComponentResource):
    bucket: pulumi.Output[str]
    arn: pulumi.Output[str]

    def __init__(self, name: str, args: StorageBucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:StorageBucket", name, None, opts)
        # A bucket that is kept keeps what protects it.
        own = pulumi.ResourceOptions(parent=self, retain_on_delete=args.keep)
        bucket = aws.s3.Bucket(
            f"{name}-bucket",
            bucket_prefix=f"{args.name.lower()[:_PREFIX_LENGTH]}-",
            force_destroy=not args.keep,
            opts=own,
        )
        # One after the other: S3 refuses two changes of a bucket's configuration at once.
        block = aws.s3.BucketPublicAccessBlock(
            f"{name}-private",
            bucket=bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=own,
        )
        aws.s3.BucketPolicy(
            f"{name}-tls-only",
            bucket=block.bucket,
            policy=bucket.arn.apply(lambda arn: json.dumps(tls_only(arn))),
            opts=own,
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            f"{name}-encryption",
            bucket=bucket.id,
            rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}],
            opts=own,
        )
        versioning = aws.s3.BucketVersioning(
            f"{name}-versioning", bucket=bucket.id, versioning_configuration={"status": "Enabled"}, opts=own
        )
        aws.s3.BucketLifecycleConfiguration(f"{name}-lifecycle", bucket=versioning.bucket, rules=_rules(args), opts=own)
        self.bucket, self.arn = bucket.id, bucket.arn
        self.register_outputs({"bucket": self.bucket})


def _rules(args: StorageBucketArgs) -> list[aws.s3.BucketLifecycleConfigurationRuleArgsDict]:
    folder: aws.s3.BucketLifecycleConfigurationRuleFilterArgsDict = {"prefix": prefix(args.path)}
    tidy: aws.s3.BucketLifecycleConfigurationRuleArgsDict = {
        "id": "tidy",
        "status": "Enabled",
        "filter": folder,
        "abort_incomplete_multipart_upload": {"days_after_initiation": _INCOMPLETE_DAYS},
        "noncurrent_version_expiration": {"noncurrent_days": _NONCURRENT_DAYS},
        "expiration": {"expired_object_delete_marker": True},
    }
    if not args.expire_days:
        return [tidy]
    return [tidy, {"id": "expire", "status": "Enabled", "filter": folder, "expiration": {"days": args.expire_days}}]
