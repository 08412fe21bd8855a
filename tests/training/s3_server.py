"""An S3 server on loopback, and the environment through which a process finds it."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from training import s3

BUCKET = "runs-of-the-test"
# None takes the variable away: a developer's own credentials must not decide a test.
ENVIRONMENT: Mapping[str, str | None] = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_SESSION_TOKEN": None,
    "AWS_PROFILE": None,
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": None,
    "AWS_ENDPOINT_URL_S3": None,
    "AWS_WEB_IDENTITY_TOKEN_FILE": None,
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": None,
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": None,
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@dataclass(frozen=True)
class S3Server:
    port: int
    client: Any

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def keys(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    @contextmanager
    def denying(self, action: str) -> Iterator[None]:
        statement = {
            "Effect": "Deny",
            "Principal": "*",
            "Action": action,
            "Resource": [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"],
        }
        self.client.put_bucket_policy(
            Bucket=BUCKET, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        )
        try:
            yield
        finally:
            self.client.delete_bucket_policy(Bucket=BUCKET)


def set_environment(patch: pytest.MonkeyPatch, changes: Mapping[str, str | None]) -> None:
    """For this process and those it starts; what a process has opened already it keeps."""
    for name, value in changes.items():
        if value is None:
            patch.delenv(name, raising=False)
        else:
            patch.setenv(name, value)
    s3.forget()


@contextmanager
def serving() -> Iterator[S3Server]:
    import boto3  # type: ignore[import-untyped]
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            port = int(server.get_host_and_port()[1])
            url = f"http://127.0.0.1:{port}"
            set_environment(patch, {**ENVIRONMENT, "AWS_ENDPOINT_URL": url})
            client = boto3.client("s3", endpoint_url=url)
            client.create_bucket(Bucket=BUCKET)
            yield S3Server(port, client)
    finally:
        server.stop()
        s3.forget()
