"""A stack's files in a file backend: the locks of who works on it, and what a `pulumi` that was killed leaves there."""

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

import psutil

PROJECT = "ray-train-efa"
OWN = ".state"
"""In the project's folder: where .venv/bin/pulumi keeps the state of stacks of the local platform."""


@dataclass(frozen=True)
class FileBackend:
    root: Path
    stack: str

    def release_dead_locks(self) -> list[str]:
        """Removes locks that a killed `pulumi` of this machine left; says which."""
        released = []
        for lock in self._locks():
            pid, host = _holder(lock)
            if pid is not None and host == socket.gethostname() and not psutil.pid_exists(pid):
                lock.unlink(missing_ok=True)
                released.append(f"released the lock of a pulumi (pid {pid}) that no longer runs")
        return released

    def holder(self) -> str:
        """Who has the stack locked; empty: nobody."""
        for lock in self._locks():
            pid, host = _holder(lock)
            return str(lock) if pid is None else f"pid {pid} on {host}"
        return ""

    def mend(self) -> list[str]:
        """Removes attributes that were being written when their `pulumi` was killed; says which.

        gocloud.dev's fileblob writes FILE.attrs in place before it renames the new FILE: the state is whole, but with
        such attributes beside it Pulumi reads nothing ("failed to load checkpoint: EOF"), and without any it does. One
        that is being written at this moment may go as well.
        """
        state = self.root / ".pulumi" / "stacks" / PROJECT
        torn = [
            file
            for file in (*sorted(state.glob(f"{self.stack}.json*.attrs")), self.root / ".pulumi" / "meta.yaml.attrs")
            if _is_torn(file)
        ]
        for file in torn:
            file.unlink(missing_ok=True)
        return [
            f"removed {file.name}, which a pulumi was writing when it was killed: the state is whole" for file in torn
        ]

    def _locks(self) -> list[Path]:
        return sorted((self.root / ".pulumi" / "locks" / "organization" / PROJECT / self.stack).glob("*.json"))


def file_backend(folder: Path, stack: str, *, own: bool = False) -> FileBackend | None:
    """Where the state of a stack of the project in `folder` is, as .venv/bin/pulumi decides it; None: not in files.

    A stack that is in the project's own state stays there, whatever its settings say. `own`: new ones go there too.
    """
    if chosen := os.environ.get("PULUMI_BACKEND_URL"):
        backend = urlparse(chosen)
        return FileBackend(Path(backend.path), stack) if backend.scheme == "file" else None
    root = folder / OWN
    in_it = (root / ".pulumi" / "stacks" / PROJECT / f"{stack}.json").exists()
    return FileBackend(root, stack) if own or in_it else None


def _holder(lock: Path) -> tuple[int | None, str]:
    """The process that made a lock, and its machine; None where the lock does not tell."""
    try:
        told = json.loads(lock.read_text())
        return int(told["pid"]), str(told["hostname"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, ""


def _is_torn(attributes: Path) -> bool:
    try:
        json.loads(attributes.read_bytes())
    except OSError:
        return False
    except ValueError:
        return True
    return False
