"""A run's storage in an S3 bucket, through pyarrow, which Ray Train itself writes to S3 with.

An object appears whole or not at all, and whoever lists after that finds it; folders are but beginnings of keys.
"""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import IO, Any

from training.errors import first_line
from training.s3_environment import credentials_source, endpoint, region
from training.s3_streams import Upload, reading
from training.storage import S3_SCHEME, Folder

# A request fails that sees not a byte for REQUEST_S (and some seconds: curl averages), is tried again with growing
# pauses, and is given up after ATTEMPTS: short troubles pass unnoticed, an outage is an error within two minutes, and a
# slow but living S3 is never cut off.
CONNECT_S = 5.0
REQUEST_S = 10.0
ATTEMPTS = 6

_ACTIONS = "s3:ListBucket on the bucket and s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload on"
_REFUSED = re.compile(
    r"AWS Error (?P<code>\w+)(?: \(HTTP status (?P<status>\d+)\))? during (?P<operation>\w+) operation"
)
_BAD_CREDENTIALS = {
    "INVALID_ACCESS_KEY_ID",
    "INVALID_CLIENT_TOKEN_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "EXPIRED_TOKEN",
    "INVALID_SIGNATURE",
    "UNRECOGNIZED_CLIENT",
}
_WRONG_REGION = re.compile(
    r"configured region is '(?P<configured>[^']*)' while the bucket is located in '(?P<bucket>[^']*)'"
)


class S3Error(OSError):
    """One line that says what S3 refused, why, and what to do."""


@dataclass(frozen=True)
class S3Folder(Folder):
    bucket: str
    key: str
    """Without a slash at either end; empty for the whole bucket."""

    def __str__(self) -> str:
        return f"{S3_SCHEME}{self.ray_path}"

    @property
    def ray_path(self) -> str:
        return f"{self.bucket}/{self.key}".rstrip("/")

    @property
    def name(self) -> str:
        return self.ray_path.rpartition("/")[2]

    @property
    def identity(self) -> str:
        return str(self)

    def __truediv__(self, name: str) -> "S3Folder":
        return S3Folder(self.bucket, f"{self.key}/{name}".lstrip("/"))

    def make(self) -> None:
        """Keys need no folders."""

    def probe(self) -> None:
        self.write(".writable", "probe")
        self.names()
        self.read(".writable")
        self.delete(".writable")

    def add(self, name: str) -> "S3Folder":
        if (self / name).exists():
            raise FileExistsError(f"{self / name} exists")
        return self / name

    def exists(self) -> bool:
        from pyarrow.fs import FileType

        with self.explained() as system:
            return bool(system.get_file_info(self.ray_path).type == FileType.Directory)

    def remove(self) -> None:
        with self.explained() as system, suppress(FileNotFoundError):
            system.delete_dir(self.ray_path)

    def names(self) -> list[str]:
        return [info.base_name for info in self._list(recursive=False)]

    def sizes(self) -> dict[str, int]:
        below = f"{self.ray_path}/"
        return {info.path.removeprefix(below): info.size for info in self._list(recursive=True) if info.is_file}

    def has(self, name: str) -> bool:
        from pyarrow.fs import FileType

        with self.explained() as system:
            return bool(system.get_file_info(f"{self.ray_path}/{name}").type == FileType.File)

    def read(self, name: str) -> str:
        with self.explained() as system, system.open_input_stream(f"{self.ray_path}/{name}") as stream:
            return str(stream.read().decode())

    def write(self, name: str, text: str) -> None:
        with self.explained() as system, system.open_output_stream(f"{self.ray_path}/{name}") as stream:
            stream.write(text.encode())

    @contextmanager
    def open_read(self, name: str) -> Iterator[IO[bytes]]:
        with self.explained() as system, reading(system.open_input_file(f"{self.ray_path}/{name}")) as stream:
            yield stream

    @contextmanager
    def open_write(self, name: str) -> Iterator[IO[bytes]]:
        with self.explained() as system, Upload(system.open_output_stream(f"{self.ray_path}/{name}")) as stream:
            yield stream  # type: ignore[misc]

    def rename(self, old: str, new: str) -> None:
        with self.explained() as system:
            system.move(f"{self.ray_path}/{old}", f"{self.ray_path}/{new}")

    def delete(self, name: str) -> None:
        with self.explained() as system, suppress(FileNotFoundError):
            system.delete_file(f"{self.ray_path}/{name}")

    def claim(self, name: str) -> bool:
        """pyarrow has no conditional write: of those that ask at once each sees the other, and none gets it."""
        claims = self / name
        mine = uuid.uuid4().hex
        claims.write(mine, "")
        return claims.names() == [mine]

    def ray_file_system(self) -> Any:
        """Given to Ray, which otherwise makes its own, with other time-outs."""
        with self.explained() as system:
            return system

    @contextmanager
    def explained(self) -> Iterator[Any]:
        """The file system; what it raises leaves here as an S3Error, but for FileNotFoundError."""
        from pyarrow import ArrowException

        try:
            yield _file_system(self.bucket)
        except (S3Error, FileNotFoundError):
            raise
        except (OSError, ArrowException) as error:
            raise S3Error(explanation(self, error)) from error

    def _list(self, *, recursive: bool) -> list[Any]:
        from pyarrow.fs import FileSelector

        with self.explained() as system:
            found: list[Any] = system.get_file_info(
                FileSelector(self.ray_path, recursive=recursive, allow_not_found=True)
            )
        return found


def explanation(folder: S3Folder, error: BaseException) -> str:
    """What S3 answered, in one line, with what to do about it."""
    told = first_line(error)
    refusal = _REFUSED.search(told)
    code, status = (refusal["code"], refusal["status"]) if refusal else ("", None)
    at = f" at {endpoint()}" if endpoint() else ""
    source = credentials_source()
    if code == "NO_SUCH_BUCKET" or re.search(r"Bucket '.*' not found", told):
        return f"bucket {folder.bucket} does not exist{at}: create it, or name another"
    wrong_region = _WRONG_REGION.search(told)
    if wrong_region:
        return (
            f"bucket {folder.bucket} lies in {wrong_region['bucket']}, not in {wrong_region['configured']}: "
            f"set AWS_REGION to {wrong_region['bucket']}"
        )
    if code == "ACCESS_DENIED" or status == "403":
        if source is None:
            return (
                f"access to bucket {folder.bucket} denied{at}: the environment holds no AWS credentials; give the pods "
                "a Pod Identity association, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        operation = refusal["operation"] if refusal else "the request"
        return f"{operation} denied{at} with the credentials of {source}: they need {_ACTIONS} {folder}/*"
    if code in _BAD_CREDENTIALS:
        return f"S3{at} does not accept the credentials of {source} ({code}): renew or correct them"
    if code == "NETWORK_CONNECTION":
        detail = told.rpartition("Details: ")[2]
        return f"{endpoint() or 'S3'} cannot be reached ({detail}): check the network, AWS_REGION and AWS_ENDPOINT_URL"
    return told


@cache
def _file_system(bucket: str) -> Any:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    return S3FileSystem(
        endpoint_override=endpoint(),
        region=region(bucket),
        connect_timeout=CONNECT_S,
        request_timeout=REQUEST_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        # Small objects as one request, and no marker objects where a prefix exists already.
        allow_delayed_open=True,
        check_directory_existence_before_creation=True,
    )


def forget() -> None:
    """Make the next request with what the environment says then."""
    _file_system.cache_clear()
