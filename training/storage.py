"""Where a run keeps what outlives its processes: a directory that every node sees, or a prefix of an S3 bucket."""

import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from training.errors import TrainingError

S3_SCHEME = "s3://"
# Of the keys that S3 allows those that are paths too, for Ray handles them as such.
_S3_LOCATION = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/(?!\.{1,2}(/|$))[A-Za-z0-9!_.*'()@=+-]+)*/?")


class Folder(ABC):
    """A place in storage; its text is what a user would type. Every method raises OSError where the storage refuses.

    Names are those of direct children. A file that is not there raises FileNotFoundError.
    """

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def identity(self) -> str:
        """The same text for every way to write the same place."""

    @abstractmethod
    def __truediv__(self, name: str) -> "Folder": ...

    @abstractmethod
    def make(self) -> None:
        """With what it lies in; nothing happens where it exists."""

    @abstractmethod
    def probe(self) -> None:
        """Write, find, read and delete a file in it."""

    @abstractmethod
    def add(self, name: str) -> "Folder":
        """A new folder in this one. Raises FileExistsError where there is one already."""

    @abstractmethod
    def exists(self) -> bool: ...

    @abstractmethod
    def remove(self) -> None:
        """With all that is in it; nothing happens where it is absent."""

    @abstractmethod
    def names(self) -> list[str]:
        """Files and folders in it; none where it is absent."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Bytes of every file below, by its path from here."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether a file of that name is in it."""

    @abstractmethod
    def read(self, name: str) -> str: ...

    @abstractmethod
    def write(self, name: str, text: str) -> None:
        """Whole or not at all, also for a reader on another node and after a crash."""

    @abstractmethod
    def open_read(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """A stream that can seek."""

    @abstractmethod
    def open_write(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """A stream that cannot; what it was given is durable once the block has ended, and may show before."""

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """A file, in place of another of the new name."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """A file, if it is there."""

    @abstractmethod
    def claim(self, name: str) -> bool:
        """True at most once for a name, whoever asks and however often."""

    @property
    @abstractmethod
    def ray_path(self) -> str:
        """As pyarrow, and so Ray, names it within `ray_file_system`."""

    @abstractmethod
    def ray_file_system(self) -> Any:
        """A pyarrow file system; None is that of this machine."""

    def read_json(self, name: str) -> Any:
        """Raises ValueError where the file is not JSON."""
        return json.loads(self.read(name))

    def write_json(self, name: str, content: Any) -> None:
        self.write(name, json.dumps(content, allow_nan=False))


@dataclass(frozen=True)
class LocalFolder(Folder):
    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def identity(self) -> str:
        return str(self.path.resolve())

    def __truediv__(self, name: str) -> "LocalFolder":
        return LocalFolder(self.path / name)

    def make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def probe(self) -> None:
        probe = self.path / ".writable"
        probe.write_text("probe")
        probe.unlink()

    def add(self, name: str) -> "LocalFolder":
        (self.path / name).mkdir(parents=True)
        return self / name

    def exists(self) -> bool:
        return self.path.is_dir()

    def remove(self) -> None:
        if self.path.is_symlink():  # what it leads to is somebody else's
            self.path.unlink()
            return
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    def names(self) -> list[str]:
        try:
            return [path.name for path in self.path.iterdir()]
        except FileNotFoundError:
            return []

    def sizes(self) -> dict[str, int]:
        return {
            path.relative_to(self.path).as_posix(): path.stat().st_size
            for path in sorted(self.path.rglob("*"))
            if path.is_file()
        }

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def read(self, name: str) -> str:
        return (self.path / name).read_text()

    def write(self, name: str, text: str) -> None:
        temporary = self.path / f".{name}.{os.getpid()}"
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / name)
        self._sync_names()

    @contextmanager
    def open_read(self, name: str) -> Iterator[IO[bytes]]:
        with (self.path / name).open("rb") as stream:
            yield stream

    @contextmanager
    def open_write(self, name: str) -> Iterator[IO[bytes]]:
        with (self.path / name).open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())

    def rename(self, old: str, new: str) -> None:
        (self.path / old).replace(self.path / new)
        self._sync_names()

    def delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def claim(self, name: str) -> bool:
        try:
            (self.path / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    @property
    def ray_path(self) -> str:
        return str(self.path)

    def ray_file_system(self) -> Any:
        return None

    def _sync_names(self) -> None:
        """So that a file's name outlasts a power cut as its bytes do."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            with suppress(OSError):  # some file systems cannot sync a directory
                os.fsync(handle)
        finally:
            os.close(handle)


def is_location(text: str) -> bool:
    """Whether `open_folder` takes it: an absolute path, or s3:// with a bucket's name and a key."""
    if "://" in text:
        return _S3_LOCATION.fullmatch(text) is not None
    return Path(text).is_absolute()


def open_folder(location: str) -> Folder:
    """`location` is an absolute path or an s3:// URI; nothing is asked of the storage yet."""
    if location.startswith(S3_SCHEME):
        from training.s3 import S3Folder

        bucket, _, key = location.removeprefix(S3_SCHEME).partition("/")
        return S3Folder(bucket, key.strip("/"))
    return LocalFolder(Path(location))


@contextmanager
def storage_errors(folder: Folder, what_fails: str = "cannot be written") -> Iterator[None]:
    """Turns what shared storage says into a TrainingError naming --storage_path."""
    try:
        yield
    except OSError as error:
        raise TrainingError(f"--storage_path: {folder} {what_fails}: {error}") from error
