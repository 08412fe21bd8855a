"""A stack's files in a file backend: who has it locked, and what a `pulumi` leaves there that writes or was killed.

gocloud.dev's fileblob writes FILE.attrs in place before it renames the new FILE: the state is always whole, but with
half of its attributes beside it Pulumi reads nothing ("failed to load checkpoint: EOF"), and without any it does.
`url_of` names a backend that has none.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

PROJECT = "ray-train-efa"
OWN = ".state"
"""In the project's folder: where .venv/bin/pulumi keeps the state of stacks of the local platform."""
UNREADABLE = "failed to load checkpoint"
"""What Pulumi says of a state whose attributes are torn, for the moment of a write or since their writer was killed."""
PAUSES_S = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Between one try to read such a state and the next. Of tries while a `pulumi` wrote without a pause, 5 % failed."""

Asked = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class FileBackend:
    root: Path
    stack: str

    def release_dead_locks(self) -> list[str]:
        """Removes locks that a killed `pulumi` of this machine left; says which."""
        # `efactl doctor` comes through here where no package is installed.
        import psutil

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
        """Removes attributes that were being written when their `pulumi` was killed; says which. Some that are being
        written at this moment may go as well."""
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


def of_stack(folder: Path, stack: str, *, own: bool = False) -> FileBackend | None:
    """Where the state of a stack of the project in `folder` is, as .venv/bin/pulumi decides it; None: not in files.

    A stack that is in the project's own state stays there, whatever its settings say. `own`: new ones go there too.
    """
    if chosen := os.environ.get("PULUMI_BACKEND_URL"):
        scheme, _, rest = chosen.partition("://")
        path = Path(unquote(rest.partition("?")[0])).expanduser()
        return FileBackend(folder / path, stack) if scheme == "file" else None
    root = folder / OWN
    in_it = (root / ".pulumi" / "stacks" / PROJECT / f"{stack}.json").exists()
    return FileBackend(root, stack) if own or in_it else None


def url_of(root: Path) -> str:
    """For PULUMI_BACKEND_URL: states in files below `root`, without attributes beside them."""
    return f"{root.as_uri()}?metadata=skip"


def read(ask: Callable[[], Asked], backend: FileBackend | None) -> Asked:
    """What `ask` has a `pulumi` say of a stack in `backend`, also while another one writes the stack's state."""
    for pause in PAUSES_S:
        done = ask()
        if backend is None or done.returncode == 0 or UNREADABLE not in done.stderr:
            return done
        if not backend.mend():
            time.sleep(pause)
    return ask()


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
