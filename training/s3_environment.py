"""Where the environment says S3 is, and with whose credentials: as every AWS SDK reads it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_asked_first = False


def endpoint() -> str | None:
    """Of the environment, as every AWS SDK reads it; pyarrow does so for URIs only."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def region(bucket: str) -> str:
    """Of the environment, else the bucket's own, which only AWS can be asked for; `buckets_first` turns that round.

    Raises OSError where neither is known.
    """
    told = next(filter(None, map(os.environ.get, REGIONS)), None)
    if told and not (_asked_first and endpoint() is None):
        return told
    if endpoint():
        return "us-east-1"
    from pyarrow.fs import resolve_s3_region

    try:
        return str(resolve_s3_region(bucket))
    except OSError:
        if told:
            return told
        raise


@contextmanager
def buckets_first() -> Iterator[None]:
    """For whoever reads buckets of any region, whatever region the environment works in. Of all threads."""
    global _asked_first
    before, _asked_first = _asked_first, True
    try:
        yield
    finally:
        _asked_first = before


def credentials_source() -> str | None:
    """Where pyarrow's AWS SDK will find credentials, in its own order; None where only a machine's role is left."""
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return "AWS_ACCESS_KEY_ID"
    file = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))
    if os.environ.get("AWS_PROFILE") or file.expanduser().is_file():
        return f"profile {os.environ.get('AWS_PROFILE', 'default')}"
    names = (
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    )
    return next((name for name in names if os.environ.get(name)), None)
