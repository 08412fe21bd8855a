"""What Ray's pods may do in a bucket."""

from fnmatch import fnmatchcase
from typing import Any

import pytest

from infra.bucket_access import access_policy, parsed, tls_only
from workload.errors import BadInputError

ARN = "arn:aws:s3:::data"


def allowed(policy: dict[str, Any], action: str, resource: str) -> bool:
    for statement in policy["Statement"]:
        actions, resources = (
            [value] if isinstance(value, str) else value for value in (statement["Action"], statement["Resource"])
        )
        if action in actions and any(fnmatchcase(resource, pattern) for pattern in resources):
            return bool(statement["Effect"] == "Allow")
    return False


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://data", ("data", "")),
        ("s3://data/", ("data", "")),
        ("s3://data/a/b/", ("data", "a/b")),
    ],
)
def test_a_uri_has_a_bucket_and_a_path(uri: str, expected: tuple[str, str]) -> None:
    assert parsed(uri) == expected


@pytest.mark.parametrize("uri", ["s3://", "data/a", "https://data/a"])
def test_anything_else_is_refused(uri: str) -> None:
    with pytest.raises(BadInputError, match="s3://bucket/folder"):
        parsed(uri)


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"])
def test_files_of_the_folder_can_be_read_written_and_deleted_and_no_others(action: str) -> None:
    policy = access_policy(ARN, "runs/ray")
    assert allowed(policy, action, f"{ARN}/runs/ray/1/checkpoint.pt")
    for other in ("runs/other/checkpoint.pt", "runs/rayon/checkpoint.pt", "checkpoint.pt"):
        assert not allowed(policy, action, f"{ARN}/{other}")


def test_pyarrow_can_make_the_folder_and_those_above_it() -> None:
    policy = access_policy(ARN, "a/b/c")
    assert allowed(policy, "s3:ListBucket", ARN)
    for folder in ("a/", "a/b/", "a/b/c/", "a/b/c/1/"):
        assert allowed(policy, "s3:PutObject", f"{ARN}/{folder}")
    assert not allowed(policy, "s3:PutObject", f"{ARN}/a/file")
    assert not allowed(policy, "s3:DeleteObject", f"{ARN}/a/")


def test_a_whole_bucket_needs_no_folders() -> None:
    policy = access_policy(ARN, "")
    assert [statement["Sid"] for statement in policy["Statement"]] == ["Bucket", "Folder"]
    assert allowed(policy, "s3:GetObject", f"{ARN}/x")


def test_no_action_is_a_wildcard() -> None:
    for statement in access_policy(ARN, "a/b")["Statement"]:
        assert "*" not in "".join(statement["Action"])
        assert statement["Resource"] != "*"


def test_plain_http_is_denied_for_the_bucket_and_all_in_it() -> None:
    [statement] = tls_only(ARN)["Statement"]
    assert statement["Effect"] == "Deny"
    assert statement["Resource"] == [ARN, f"{ARN}/*"]
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
