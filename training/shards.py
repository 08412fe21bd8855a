"""How torch.distributed.checkpoint reads and writes a folder: every rank its own shards, straight from storage."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from torch.distributed.checkpoint.filesystem import FileSystemBase, FileSystemReader, FileSystemWriter

from training.s3 import S3Folder
from training.storage import Folder, LocalFolder

READ_AHEAD = 16 * 1024 * 1024
"""Bytes. One request fetches many small tensors side by side; at most this much is fetched in vain per file."""
IN_FLIGHT = 256 * 1024 * 1024
"""Bytes of a shard that may be on their way to S3, and in memory, at once."""


def writer(folder: Folder) -> FileSystemWriter:
    if isinstance(folder, LocalFolder):
        return FileSystemWriter(folder.path)
    assert isinstance(folder, S3Folder)
    return _S3Writer(folder)


def reader(folder: Folder) -> FileSystemReader:
    if isinstance(folder, LocalFolder):
        return FileSystemReader(folder.path)
    assert isinstance(folder, S3Folder)
    return _S3Reader(folder)


class _S3Writer(FileSystemWriter):  # type: ignore[misc]
    def __init__(self, folder: S3Folder) -> None:
        # An object that S3 has taken is durable; syncing would be the whole node's file systems.
        super().__init__(folder.ray_path, sync_files=False)
        self.fs = _Objects(folder)
        self.path = folder.ray_path


class _S3Reader(FileSystemReader):  # type: ignore[misc]
    def __init__(self, folder: S3Folder) -> None:
        super().__init__(folder.ray_path)
        self.fs = _Objects(folder)
        self.path = folder.ray_path

    def _slice_file(self, file: Any, sinfo: Any) -> IO[bytes]:
        # torch.load seeks to and fro in a tensor's bytes: a request each, were they not in memory.
        file.seek(sinfo.offset)
        return io.BytesIO(file.read(sinfo.length))


class _Objects(FileSystemBase):  # type: ignore[misc]
    """Paths are those of pyarrow: bucket/key."""

    def __init__(self, folder: S3Folder) -> None:
        self._folder = folder

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[Any]:
        with self._folder.explained() as system:
            if mode == "rb":
                with io.BufferedReader(system.open_input_file(os.fspath(path)), READ_AHEAD) as stream:
                    yield stream
            else:
                with _Upload(system.open_output_stream(os.fspath(path))) as upload:
                    yield upload

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        return f"{os.fspath(path)}/{suffix}"

    def init_path(self, path: str | os.PathLike[str]) -> str:
        return os.fspath(path)

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        with self._folder.explained() as system:
            system.move(os.fspath(path), os.fspath(new_path))

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Keys need no directories."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return False

    def exists(self, path: str | os.PathLike[str]) -> bool:
        from pyarrow.fs import FileType

        with self._folder.explained() as system:
            return bool(system.get_file_info(os.fspath(path)).type == FileType.File)

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        with self._folder.explained() as system:
            system.delete_file(os.fspath(path))


class _Upload(io.RawIOBase):
    """pyarrow's output stream, which uploads what it was given in the background."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._unflushed = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        # A copy: pyarrow keeps a reference only, and torch hands over memory that it uses again at once.
        written = int(self._stream.write(bytes(data)))
        self._unflushed += written
        if self._unflushed > IN_FLIGHT:
            self._stream.flush()
            self._unflushed = 0
        return written

    def flush(self) -> None:
        """torch flushes after every tensor, and pyarrow's flush waits until S3 has all of it: close() does that."""

    def tell(self) -> int:
        return int(self._stream.tell())

    def close(self) -> None:
        if not self.closed:
            try:
                self._stream.close()
            finally:
                super().close()
