"""Where a data set's files lie, and how to open one on any node."""

import hashlib
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from training.data_settings import HUB_SCHEME
from training.errors import TrainingError
from training.hub_files import HubFiles, find_hub_files, local_copy
from training.storage import S3_SCHEME, open_folder

TEXT_FILES, JSON_LINES, PARQUET = (".txt", ".md"), ".jsonl", ".parquet"
SUFFIXES = (*TEXT_FILES, JSON_LINES, PARQUET)


@dataclass(frozen=True)
class Source:
    """Plain data: it travels to whichever process reads a part of it."""

    location: str
    sizes: dict[str, int]
    """Bytes of each file by its path, in the order of paths: as the file system names it, or as the hub does."""
    changed: dict[str, int]
    """When each was last written, where the place tells."""
    hub: HubFiles | None = None
    argument: str = "--dataset"
    """By which the user named it."""

    def digest(self) -> str:
        """Changes when a file is added, removed or written anew."""
        commit = self.hub.commit if self.hub else None
        told = json.dumps([self.location, commit, self.sizes, self.changed], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    @contextmanager
    def opened(self, path: str) -> Iterator[Any]:
        """A pyarrow file that can seek. Raises TrainingError where this node cannot read it, or finds it damaged."""
        from pyarrow import ArrowException

        try:
            with _file_system(self.location) as system:
                name = str(local_copy(self.hub, path)) if self.hub else path
                with system.open_input_file(name) as file:
                    yield file
        except (OSError, ArrowException, UnicodeDecodeError) as error:
            raise TrainingError(
                f"{self.argument} {self.location}: node {socket.gethostname()}: {path}: {error}"
            ) from error


def find_files(dataset: str, argument: str = "--dataset") -> Source:
    """All files of the known kinds at and below an absolute path, an S3 prefix or in a hub data set.

    Raises TrainingError where there is none.
    """
    if dataset.startswith(HUB_SCHEME):
        hub = find_hub_files(dataset, SUFFIXES, argument)
        return Source(dataset, hub.sizes, {}, hub, argument)
    from pyarrow.fs import FileSelector, FileType

    try:
        with _file_system(dataset) as system:
            path = open_folder(dataset).ray_path
            root = system.get_file_info(path)
            found = [root]
            if root.type == FileType.Directory:
                found = system.get_file_info(FileSelector(path, recursive=True))
    except OSError as error:
        raise TrainingError(f"{argument} {dataset}: {error}") from error
    if root.type == FileType.NotFound:
        raise TrainingError(f"{argument} {dataset}: node {socket.gethostname()} finds nothing there")
    known = (info for info in found if info.is_file and _is_known(info.path, path))
    files = sorted(known, key=lambda info: info.path)
    if not files:
        raise TrainingError(f"{argument} {dataset}: no {', '.join(SUFFIXES)} file there")
    sizes, changed = {info.path: info.size for info in files}, {info.path: info.mtime_ns or 0 for info in files}
    return Source(dataset, sizes, changed, argument=argument)


def _is_known(path: str, root: str) -> bool:
    """Hidden files and folders are some tool's own, unless the user named them or what lies above."""
    return path.endswith(SUFFIXES) and "/." not in path.removeprefix(root.rstrip("/"))


@contextmanager
def _file_system(location: str) -> Iterator[Any]:
    if location.startswith(S3_SCHEME):
        from training.s3 import S3Folder

        folder = open_folder(location)
        assert isinstance(folder, S3Folder)
        with folder.explained() as system:
            yield system
        return
    from pyarrow.fs import LocalFileSystem

    yield LocalFileSystem()
