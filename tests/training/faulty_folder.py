"""Storage that stops in the middle: as a crash of this process would leave it, seen from outside."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from training.storage import Folder


@dataclass
class Fault:
    """Every operation that changes storage asks it; from the `at`-th on nothing is done any more."""

    at: int | None = None
    """Counted from 1; None for never."""
    chunks: bool = False
    """Whether a stream's every write counts, half of the one it stops at arriving."""
    kill: bool = False
    """End the process instead of raising."""
    gate: threading.Event | None = None
    """Opening a file for writing waits for it."""
    operations: list[str] = field(default_factory=list)

    @property
    def met(self) -> bool:
        return self.at is not None and len(self.operations) >= self.at

    def before(self, operation: str) -> None:
        if not self.met:
            self.operations.append(operation)
        if self.met:
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(f"fault at operation {self.at}, {self.operations[-1]}")


@dataclass(frozen=True)
class FaultyFolder(Folder):
    inner: Folder
    fault: Fault

    def __str__(self) -> str:
        return str(self.inner)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def identity(self) -> str:
        return self.inner.identity

    def __truediv__(self, name: str) -> "FaultyFolder":
        return FaultyFolder(self.inner / name, self.fault)

    def make(self) -> None:
        self.fault.before(f"make {self.name}")
        self.inner.make()

    def probe(self) -> None:
        self.fault.before("probe")
        self.inner.probe()

    def add(self, name: str) -> Folder:
        self.fault.before(f"add {name}")
        return FaultyFolder(self.inner.add(name), self.fault)

    def exists(self) -> bool:
        return self.inner.exists()

    def remove(self) -> None:
        """File by file, as it happens."""
        for name in self.inner.sizes():
            self.fault.before(f"remove {self.name}/{name}")
            self.inner.delete(name)
        self.fault.before(f"remove {self.name}")
        self.inner.remove()

    def names(self) -> list[str]:
        return self.inner.names()

    def sizes(self) -> dict[str, int]:
        return self.inner.sizes()

    def has(self, name: str) -> bool:
        return self.inner.has(name)

    def read(self, name: str) -> str:
        return self.inner.read(name)

    def write(self, name: str, text: str) -> None:
        self.fault.before(f"write {name}")
        self.inner.write(name, text)

    def open_read(self, name: str) -> AbstractContextManager[IO[bytes]]:
        return self.inner.open_read(name)

    @contextmanager
    def open_write(self, name: str) -> Iterator[IO[bytes]]:
        if self.fault.gate is not None:
            self.fault.gate.wait()
        self.fault.before(f"open {name}")
        with self.inner.open_write(name) as stream:
            yield _Stream(stream, self.fault, name)  # type: ignore[misc]
            self.fault.before(f"close {name}")

    def rename(self, old: str, new: str) -> None:
        self.fault.before(f"rename {new}")
        self.inner.rename(old, new)

    def delete(self, name: str) -> None:
        self.fault.before(f"delete {self.name}/{name}")
        self.inner.delete(name)

    def claim(self, name: str) -> bool:
        return self.inner.claim(name)

    @property
    def ray_path(self) -> str:
        return self.inner.ray_path

    def ray_file_system(self) -> Any:
        return self.inner.ray_file_system()


@dataclass
class _Stream:
    inner: IO[bytes]
    fault: Fault
    name: str

    def write(self, data: Any) -> int:
        if self.fault.chunks:
            try:
                self.fault.before(f"write to {self.name}")
            except OSError:
                self.inner.write(bytes(data)[: len(data) // 2])
                raise
        return self.inner.write(data)

    def flush(self) -> None:
        self.inner.flush()

    def tell(self) -> int:
        return self.inner.tell()
