"""Token sequences in files that every rank reads by position."""

import errno
import fcntl
import hashlib
import os
import shutil
import socket
import tempfile
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.errors import TrainingError
from training.packing import Words
from training.storage import Folder, LocalFolder, storage_errors

MANIFEST, SUFFIX = "manifest.json", ".tokens"
_WORD = np.dtype("<u4")
_OPEN_FILES = 128
"""At once, of each half: a data set has one for each 32 MiB, and a process may often have 1,024 of all kinds."""


def write_rows(folder: Folder, name: str, rows: Words) -> str:
    """Whole or not at all. `rows` is (rows, seq_len + 1). Returns the digest of what the file holds."""
    content = np.ascontiguousarray(rows, dtype=_WORD).data
    with storage_errors(folder):
        if isinstance(folder, LocalFolder):
            temporary = folder.path / f".{name}.{uuid.uuid4().hex}"
            temporary.write_bytes(content)
            temporary.replace(folder.path / name)
        else:
            with folder.open_write(name) as stream:
                stream.write(content)
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class TokenFile:
    name: str
    rows: int


class TokenRows:
    """Rows of several files, one after another; for one thread at a time.

    Read with pread rather than through a memory map: a page that must come from disk or over the network is then waited
    for without Python's lock, and the training loop goes on meanwhile.
    """

    def __init__(self, directory: Path, files: Sequence[TokenFile], seq_len: int) -> None:
        """Raises TrainingError where a file is not there, or has another size; so does read()."""
        self._words = seq_len + 1
        self._ends = np.cumsum([file.rows for file in files], dtype=np.int64)
        self._paths = [directory / file.name for file in files]
        self._open: OrderedDict[int, int] = OrderedDict()  # file to descriptor, the one read last at the end
        for file, path in zip(files, self._paths, strict=True):
            try:
                size = path.stat().st_size
            except OSError as error:
                raise _unseen(error) from error
            if size != file.rows * self._words * _WORD.itemsize:
                raise _damaged(path)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def read(self, indices: NDArray[np.int64]) -> Words:
        """(len(indices), seq_len + 1) words."""
        rows = np.empty((len(indices), self._words), dtype=_WORD)
        size = rows.itemsize * self._words
        for row, index, file in zip(rows, indices, np.searchsorted(self._ends, indices, side="right"), strict=True):
            before = int(self._ends[file - 1]) if file else 0
            if os.preadv(self._descriptor(int(file)), [row.data], (int(index) - before) * size) != size:
                raise _damaged(self._paths[file])
        return rows

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def _descriptor(self, file: int) -> int:
        if file in self._open:
            self._open.move_to_end(file)
            return self._open[file]
        if len(self._open) >= _OPEN_FILES:
            os.close(self._open.popitem(last=False)[1])
        try:
            self._open[file] = os.open(self._paths[file], os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _unseen(error) from error
        return self._open[file]


def _unseen(error: OSError) -> TrainingError:
    node = socket.gethostname()
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return TrainingError(f"--dataset: node {node}: {error}: raise its limit of open files (ulimit -n)")
    return TrainingError(
        f"--storage_path: node {node} does not see what was prepared: {error}: name storage that all nodes share"
    )


def _damaged(path: Path) -> TrainingError:
    return TrainingError(f"--dataset: {path} is damaged: delete {path.parent} and start anew")


def on_this_node(folder: Folder) -> Path:
    """A directory of this machine with a folder's files: itself, or one copy of it for all ranks of a node."""
    if isinstance(folder, LocalFolder):
        return folder.path
    copies = Path(tempfile.gettempdir()) / "ray-train-tokens"
    try:
        copies.mkdir(exist_ok=True)
        copy = copies / folder.name
        with (copies / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not copy.is_dir():
                _download(folder, copy)
    except OSError as error:
        raise TrainingError(f"--dataset: tokens of {folder} cannot be copied to {copies}: {error}") from error
    return copy


def _download(folder: Folder, copy: Path) -> None:
    from pyarrow.fs import LocalFileSystem, copy_files

    part = copy.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    system = folder.ray_file_system()
    for name in (name for name in folder.names() if name.endswith(SUFFIX)):
        copy_files(
            f"{folder.ray_path}/{name}",
            str(part / name),
            source_filesystem=system,
            destination_filesystem=LocalFileSystem(),
        )
    part.replace(copy)


def read_manifest(folder: Folder) -> dict[str, Any] | None:
    """What prepare() wrote last; None where it has not come to that."""
    with storage_errors(folder, "cannot be read"):
        try:
            manifest: dict[str, Any] = folder.read_json(MANIFEST)
        except FileNotFoundError:
            return None
    return manifest
