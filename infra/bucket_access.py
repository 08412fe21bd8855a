"""PURE: who may do what in a bucket of checkpoints."""

from typing import Any

from workload.errors import BadInputError

_VERSION = "2012-10-17"
_SCHEME = "s3://"


def parsed(uri: str) -> tuple[str, str]:
    """Bucket and path of an s3:// URI; the path has no slash at either end. Raises BadInputError for anything else."""
    bucket, _, path = uri.removeprefix(_SCHEME).partition("/")
    if not uri.startswith(_SCHEME) or not bucket:
        raise BadInputError(f"'{uri}' is not the URI of a bucket like s3://bucket/folder")
    return bucket, path.strip("/")


def prefix(path: str) -> str:
    """Of the keys in that folder."""
    return f"{path}/" if path else ""


def access_policy(bucket_arn: str, path: str) -> dict[str, Any]:
    """Read, write and delete in that folder of a bucket, and no more.

    pyarrow, which Ray writes through, asks for the bucket itself before it makes a folder, which is ListBucket without
    a prefix, and puts an empty object for each folder above it.
    """
    parts = path.split("/")[:-1]
    parents = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    statements: list[dict[str, Any]] = [
        {
            "Sid": "Bucket",
            "Effect": "Allow",
            "Action": ["s3:ListBucket", "s3:GetBucketLocation", "s3:ListBucketMultipartUploads"],
            "Resource": bucket_arn,
        },
        {
            "Sid": "Folder",
            "Effect": "Allow",
            "Action": [
                "s3:GetObject",
                "s3:PutObject",
                "s3:DeleteObject",
                "s3:AbortMultipartUpload",
                "s3:ListMultipartUploadParts",
            ],
            "Resource": f"{bucket_arn}/{prefix(path)}*",
        },
    ]
    if parents:
        markers = [f"{bucket_arn}/{parent}/" for parent in parents]
        statements.append({"Sid": "Parents", "Effect": "Allow", "Action": "s3:PutObject", "Resource": markers})
    return {"Version": _VERSION, "Statement": statements}


def tls_only(bucket_arn: str) -> dict[str, Any]:
    """For the bucket: no one over plain HTTP."""
    return {
        "Version": _VERSION,
        "Statement": [
            {
                "Sid": "TlsOnly",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "s3:*",
                "Resource": [bucket_arn, f"{bucket_arn}/*"],
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            }
        ],
    }
