"""Where set-up keeps what clones can share: outside every clone, keyed by version, and whole or not there."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.setup.console import say


def root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative value is invalid and is to be ignored.
    directory = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return directory / "ray-train-efa"


@contextlib.contextmanager
def locked(path: Path, topic: str) -> Iterator[None]:
    """Holds an exclusive lock on an existing file; says so when it must wait. The kernel drops it with the process."""
    with path.open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(topic, "another set-up is at work; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            say(topic, f"no file locks at {path}: do not run two set-ups at once")
        yield


def provide(name: str, topic: str, proof: str, make: Callable[[Path], None]) -> Path:
    """The cache entry `name`, made by `make(directory)` if the file `proof` inside it is missing; returns the entry.

    `make` fills a directory beside it that is renamed when complete, so an interrupted one leaves no half entry.
    """
    entry = root() / name
    if (entry / proof).exists():
        return entry
    root().mkdir(parents=True, exist_ok=True)
    lock = root() / f"{name}.lock"
    lock.touch()
    with locked(lock, topic):
        if (entry / proof).exists():
            return entry
        partial = root() / f"{name}.partial"
        for leftover in (partial, entry):
            shutil.rmtree(leftover, ignore_errors=True)
        partial.mkdir()
        try:
            make(partial)
            partial.rename(entry)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return entry
