"""Buckets, keys, file systems of FSx for Lustre, log groups."""

import re
import secrets
import uuid
from typing import Any

from tools.standin import log_groups, tokens
from tools.standin.account import new_id
from tools.standin.errors import AwsError
from tools.standin.kinds import Call, Kind, Refers
from tools.standin.network import add_interface, drop_interfaces, in_subnets, with_groups
from tools.standin.network_rules import vpc_of

_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_OF_BUCKET = (Refers(path="bucket", token=tokens.BUCKET, missing="NoSuchBucket", patient=True),)


def _bucket(call: Call) -> dict[str, Any]:
    return {
        "arn": f"arn:aws:s3:::{call.id}",
        "bucketDomainName": f"{call.id}.s3.amazonaws.com",
        "bucketRegion": call.region,
        "bucketRegionalDomainName": f"{call.id}.s3.{call.region}.amazonaws.com",
        "hostedZoneId": "Z3BJ6K6RIION7M",
    }


def _refuse_bucket(call: Call) -> None:
    if not _BUCKET_NAME.fullmatch(call.inputs["bucket"]):
        raise AwsError("InvalidBucketName", f"The specified bucket is not valid: {call.inputs['bucket']}")


def _keep_bucket(call: Call) -> None:
    if call.old and call.old.hidden.get("objects") and not call.old.inputs.get("forceDestroy"):
        raise AwsError("BucketNotEmpty", "The bucket you tried to delete is not empty")


def _of_bucket(token: str, *fixed: str) -> Kind:
    return Kind(
        token=token,
        service="S3",
        new_id=lambda call: str(call.inputs["bucket"]),
        fixed=("bucket", *fixed),
        # Putting it again overwrites: S3 refuses nothing.
        exists="",
        refers=_OF_BUCKET,
    )


def _key(call: Call) -> dict[str, Any]:
    return {"arn": call.arn("kms", f"key/{call.id}"), "keyId": call.id}


def _refuse_alias(call: Call) -> None:
    if not re.fullmatch(r"alias/(?!aws/).+", call.inputs["name"]):
        raise AwsError("ValidationException", f"'{call.inputs['name']}' must begin with alias/ and not alias/aws/")


def _alias(call: Call) -> dict[str, Any]:
    target = str(call.inputs["targetKeyId"]).rpartition("/")[2]
    return {"arn": call.arn("kms", call.id), "targetKeyArn": call.arn("kms", f"key/{target}")}


def _refuse_lustre(call: Call) -> None:
    capacity, persistent = call.inputs.get("storageCapacity", 0), call.inputs.get("deploymentType") == "PERSISTENT_2"
    if capacity != 1200 and capacity % 2400:
        raise AwsError("BadRequest", f"storage capacity {capacity} must be 1200 or a multiple of 2400")
    if persistent and call.inputs.get("perUnitStorageThroughput") not in (125, 250, 500, 1000):
        raise AwsError("BadRequest", "PERSISTENT_2 needs a PerUnitStorageThroughput of 125, 250, 500 or 1000")


def _lustre(call: Call) -> dict[str, Any]:
    # One subnet, whatever the name says.
    subnet = call.inputs["subnetIds"]
    return {
        "arn": call.arn("fsx", f"file-system/{call.id}"),
        "dnsName": f"{call.id}.fsx.{call.region}.amazonaws.com",
        "mountName": secrets.token_hex(4),
        "networkInterfaceIds": [add_interface(call, call.id, subnet, call.inputs.get("securityGroupIds", []))],
        "ownerId": call.account,
        "vpcId": vpc_of(call.records, subnet),
        "kmsKeyId": call.inputs.get("kmsKeyId", call.arn("kms", f"key/{uuid.uuid4()}")),
        "weeklyMaintenanceStartTime": call.inputs.get("weeklyMaintenanceStartTime", "2:05:00"),
    }


KINDS = (
    Kind(
        token=tokens.BUCKET,
        service="S3",
        new_id=lambda call: str(call.inputs["bucket"]),
        outputs=_bucket,
        refuse=_refuse_bucket,
        keep=_keep_bucket,
        defaults={"forceDestroy": False},
        fixed=("bucket", "bucketPrefix", "objectLockEnabled"),
        named="bucket",
        exists="BucketAlreadyOwnedByYou",
    ),
    _of_bucket(tokens.BUCKET_VERSIONING),
    _of_bucket(tokens.BUCKET_ENCRYPTION),
    _of_bucket(tokens.BUCKET_PUBLIC_ACCESS_BLOCK),
    _of_bucket(tokens.BUCKET_POLICY),
    _of_bucket(tokens.BUCKET_LIFECYCLE),
    _of_bucket(tokens.BUCKET_OWNERSHIP),
    Kind(
        token=tokens.KEY,
        service="KMS",
        new_id=lambda call: str(uuid.uuid4()),
        outputs=_key,
        computed=("policy",),
        defaults={
            "keyUsage": "ENCRYPT_DECRYPT",
            "customerMasterKeySpec": "SYMMETRIC_DEFAULT",
            "isEnabled": True,
            "enableKeyRotation": False,
            "multiRegion": False,
        },
        fixed=("keyUsage", "customerMasterKeySpec", "multiRegion", "customKeyStoreId"),
    ),
    Kind(
        token=tokens.KEY_ALIAS,
        service="KMS",
        new_id=lambda call: str(call.inputs["name"]),
        outputs=_alias,
        refuse=_refuse_alias,
        fixed=("name", "namePrefix"),
        named="name",
        exists="AlreadyExistsException",
    ),
    Kind(
        token=tokens.LUSTRE,
        service="FSx",
        new_id=lambda call: new_id("fs"),
        outputs=_lustre,
        refuse=_refuse_lustre,
        deleted=lambda call: drop_interfaces(call, call.id),
        computed=("kmsKeyId", "weeklyMaintenanceStartTime"),
        defaults={"storageType": "SSD", "automaticBackupRetentionDays": 0, "copyTagsToBackups": False},
        fixed=("subnetIds", "securityGroupIds", "deploymentType", "storageType", "kmsKeyId", "backupId", "importPath"),
        refers=(in_subnets("subnetIds"), with_groups("securityGroupIds[]")),
    ),
    Kind(
        token=tokens.LOG_GROUP,
        service="CloudWatch Logs",
        new_id=lambda call: str(call.inputs["name"]),
        outputs=lambda call: {"arn": call.arn("logs", f"log-group:{call.id}")},
        deleted=log_groups.deleted,
        defaults={"retentionInDays": 0, "logGroupClass": "STANDARD", "skipDestroy": False},
        fixed=("name", "namePrefix", "logGroupClass"),
        named="name",
        exists="ResourceAlreadyExistsException",
    ),
)
