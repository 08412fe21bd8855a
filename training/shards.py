"""How torch.distributed.checkpoint reads and writes a folder: every rank its own shards, straight from storage."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from torch.distributed.checkpoint.filesystem import FileSystemBase, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.storage import WriteResult

from training.storage import Folder


class ShardWriter(FileSystemWriter):  # type: ignore[misc]
    def __init__(self, folder: Folder) -> None:
        # No syncing: a folder's stream is durable when it has been closed. No copying ahead: the state is in host
        # memory already, and torch would do it on GPU 0 whatever GPU is this rank's.
        super().__init__(str(folder), sync_files=False, per_thread_copy_ahead=0)
        self.fs = _Files(folder)
        self.path = str(folder)
        self.written: dict[str, int] = {}
        """Once saved, on the rank that coordinates: the files of all ranks, and the bytes each has at least."""

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        super().finish(metadata, results)
        for piece in (result.storage_data for of_rank in results for result in of_rank):
            self.written[piece.relative_path] = max(
                self.written.get(piece.relative_path, 0), piece.offset + piece.length
            )


class ShardReader(FileSystemReader):  # type: ignore[misc]
    """Reads the plan of the checkpoint once, however many loads it serves."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(str(folder))
        self.fs = _Files(folder)
        self.path = str(folder)
        self._metadata: Metadata | None = None

    def read_metadata(self, *args: Any, **options: Any) -> Metadata:
        if self._metadata is None:
            self._metadata = super().read_metadata(*args, **options)
        return self._metadata

    def _slice_file(self, file: Any, sinfo: Any) -> IO[bytes]:
        # torch.load seeks to and fro in a tensor's bytes: on shared storage a request each, were they not in memory.
        file.seek(sinfo.offset)
        return io.BytesIO(file.read(sinfo.length))


class _Files(FileSystemBase):  # type: ignore[misc]
    """Paths are names in the folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[Any]:
        name = os.fspath(path)
        if mode == "rb":
            with self._folder.open_read(name) as stream:
                yield stream
            return
        with self._folder.open_write(name) as stream:
            told = _Told(stream)
            try:
                yield told
            except Exception as error:
                if told.refusal is not None:
                    raise told.refusal from error
                raise

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        return suffix

    def init_path(self, path: str | os.PathLike[str]) -> str:
        return os.fspath(path)

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        self._folder.rename(os.fspath(path), os.fspath(new_path))

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        self._folder.make()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return False

    def exists(self, path: str | os.PathLike[str]) -> bool:
        return self._folder.has(os.fspath(path))

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        self._folder.delete(os.fspath(path))


class _Told(io.RawIOBase):
    """Keeps what storage said: of a write that failed torch tells where in the file it stood, and no more."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.refusal: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            return self._stream.write(data)
        except OSError as refusal:
            self.refusal = self.refusal or refusal
            raise

    def tell(self) -> int:
        return self._stream.tell()
