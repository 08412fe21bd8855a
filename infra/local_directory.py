"""The one directory of a local cluster: where it is, who may own it, and the state file and token in it."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STATE_SCHEMA = 1
_PREFIX = "rtefa-"
_STATE_FILE = "cluster.json"
_TOKEN_FILE = "token"  # noqa: S105 - a file name
# AF_UNIX paths end at 107 bytes; Ray's longest below a cluster directory is
# /w12/session_<date and time>_<7-digit pid>/sockets/dash_PlatformEventsHead
_LONGEST_DIRECTORY = 107 - len("/w12/session_2026-01-01_00-00-00_000000_1234567/sockets/dash_PlatformEventsHead")


class DirectoryError(Exception):
    """The cluster directory can't be used; the message says why and what to do."""


def cluster_directory(project: Path, stack: str) -> Path:
    """The directory of this project's stack: the same path each time for the same TMPDIR, not created here."""
    key = hashlib.sha256(f"{project.resolve()}\0{stack}".encode()).hexdigest()[:8]
    name = f"{_PREFIX}{key}"
    for base in (Path(tempfile.gettempdir()).resolve(), Path("/tmp").resolve()):  # noqa: S108 - short on purpose
        if len(os.fsencode(base / name)) <= _LONGEST_DIRECTORY:
            return base / name
    raise DirectoryError(
        f"the temporary directory {tempfile.gettempdir()} and /tmp are both too long for Ray's sockets "
        f"(at most {_LONGEST_DIRECTORY} bytes with {name}): set TMPDIR to a shorter directory"
    )


def create(directory: Path) -> None:
    """Make the directory with mode 0700, or accept one that is already ours alone."""
    if len(os.fsencode(directory)) > _LONGEST_DIRECTORY:
        raise DirectoryError(f"{directory} is too long for Ray's sockets (at most {_LONGEST_DIRECTORY} bytes)")
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        _check_ours(directory)
    except OSError as error:
        raise DirectoryError(
            f"can't create {directory} for the local cluster ({error.strerror}): set TMPDIR to a directory "
            "that you can write to"
        ) from error


def _check_ours(directory: Path) -> None:
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise DirectoryError(f"{directory} is not a directory (or is a symbolic link): remove it, or set TMPDIR")
    if found.st_uid != os.geteuid():
        raise DirectoryError(f"{directory} belongs to user id {found.st_uid}, not to you: set TMPDIR")
    if found.st_mode & 0o077:
        raise DirectoryError(
            f"{directory} is open to other users (mode {found.st_mode & 0o777:o}): chmod 700 or remove"
        )


@contextlib.contextmanager
def locked(directory: Path, *, wait_seconds: float) -> Iterator[None]:
    """Hold the directory alone: one start or stop at a time, over all processes; freed when the holder dies.

    Raises FileNotFoundError when there is no such directory (any more).
    """
    deadline = time.monotonic() + wait_seconds
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        while not _try_lock(handle):
            if time.monotonic() > deadline:
                raise DirectoryError(
                    f"another process is starting or stopping the local cluster in {directory}: "
                    "wait for it to end, then try again"
                )
            time.sleep(0.1)
        if os.fstat(handle).st_ino != directory.lstat().st_ino:
            raise FileNotFoundError(errno.ENOENT, "replaced", str(directory))
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def token_path(directory: Path) -> Path:
    return directory / _TOKEN_FILE


def write_token(directory: Path, token: str | None) -> None:
    """Keep the token that is there, unless another is given; make one if there is none. Mode 0600."""
    path = token_path(directory)
    if token is None and path.exists():
        return
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(token or secrets.token_hex(32))


def read_token(directory: Path) -> str | None:
    try:
        return token_path(directory).read_text()
    except OSError:
        return None


def write_state(directory: Path, state: dict[str, Any]) -> None:
    draft = directory / f"{_STATE_FILE}.new"
    draft.write_text(json.dumps({"schema": STATE_SCHEMA, **state}, indent=1))
    draft.replace(directory / _STATE_FILE)


def read_state(directory: Path) -> dict[str, Any] | None:
    """The state of the cluster that was completely started here, or None (none, unreadable, another schema)."""
    try:
        state = json.loads((directory / _STATE_FILE).read_text())
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and state.get("schema") == STATE_SCHEMA else None


def clear(directory: Path, *, keep_token: bool = False) -> None:
    """Remove what is in the directory, and the directory itself unless the token is kept in it."""
    if not directory.name.startswith(_PREFIX):
        raise DirectoryError(f"{directory} is not the directory of a local cluster: nothing removed")
    if not os.path.lexists(directory):
        return
    _check_ours(directory)
    (directory / _STATE_FILE).unlink(missing_ok=True)
    for entry in directory.iterdir():
        if keep_token and entry.name == _TOKEN_FILE:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    if not keep_token:
        shutil.rmtree(directory)
