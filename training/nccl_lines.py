"""NCCL's own lines: each process's go to a file of its own, and from there, line by line and marked, to the job's log.

NCCL writes either to stdout or to a file. On stdout its lines stand among others', in pieces, and nobody knows how many
there were. From the file each rank prints whole lines as `[nccl rank 3 #a1b2c3d4] ...` and testifies their number and
hash, so that a reader of the log knows whether it has all of them. No torch here: every process of the job loads this.
"""

import hashlib
import os
import re
import secrets
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from training.errors import TrainingError

VARIABLE = "NCCL_DEBUG_FILE"
_FAILURE = "RAY_TRAIN_EFA_NCCL_FAILURE"
POLL_S = 0.5
_PLACEHOLDER = re.compile(r"%(.)")
_VERSIONS = {
    "aws_ofi_nccl": re.compile(r"NET/OFI (?:Initializing|Using) aws-ofi-nccl (\S+)"),
    "libfabric": re.compile(r"NET/OFI Using Libfabric version (\S+)"),
}


def prepare(directory: Path) -> None:
    """Before NCCL starts in this process: lead its lines to a file in `directory`, unless the user named another.

    Where the directory cannot be made, NCCL writes to none; `handed_back` raises the reason if there is NCCL at all.
    """
    if not os.environ.get(VARIABLE):
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            os.environ[_FAILURE] = str(error)
            return
        os.environ[VARIABLE] = f"{str(directory).replace('%', '%%')}/nccl.%h.%p.log"
    if _is_own(os.environ[VARIABLE]):
        # From a process that had the same pid, before the container was started anew.
        with suppress(OSError):
            expand(os.environ[VARIABLE]).unlink(missing_ok=True)


def expand(pattern: str) -> Path:
    """As NCCL 2.18 to 2.30 does (src/debug.cc): %h is the host's name to its first dot, %p the pid, %% a percent."""
    values = {"%": "%", "h": socket.gethostname().partition(".")[0], "p": str(os.getpid())}
    return Path(_PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), pattern))


def _is_own(pattern: str) -> bool:
    """NCCL knows no special names: `stdout` is a file where the process happens to be, /dev/stdout would be cut."""
    return Path(pattern).is_absolute() and "p" in _PLACEHOLDER.findall(pattern)


class NcclLines:
    """A rank's lines as they are handed back.

    `id` is new with every attempt, and the mark of those that are testified; `versions` are those of what NCCL loads by
    itself, as far as the lines tell yet.
    """

    def __init__(self, rank: int) -> None:
        self.id = secrets.token_hex(4)
        self.versions: dict[str, str] = {}
        self._rank, self._mark = rank, f"[nccl rank {rank} #{self.id}]"
        self._count = 0
        self._digest = hashlib.sha256()
        self._read = 0
        self._begun = b""
        self._settled = False
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, file: Path) -> None:
        """Hand back what is in the file and what will be, from a thread; the file need not be there yet."""
        self._file = file
        self._end.clear()
        self._thread = threading.Thread(target=self._follow, name="nccl-lines", daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Hand back what there is, a last line without its end too: the testimony is of that.

        Later lines are handed back too, under another mark, of which nobody testifies.
        """
        if self._thread is None or self._settled:
            return
        self._stop(self._thread)
        self._mark = f"[nccl rank {self._rank} #{secrets.token_hex(4)}]"
        self.follow(self._file)

    def finish(self) -> None:
        """As `settle`; later lines stay in the file."""
        if self._thread is not None and not self._end.is_set():
            self._stop(self._thread)

    def testimony(self) -> dict[str, Any] | None:
        """Number and hash of the lines (without the mark, joined by line feeds); None before they are settled."""
        if not (self._settled and self._count):
            return None
        return {"id": self.id, "count": self._count, "sha256": self._digest.hexdigest()}

    def _stop(self, thread: threading.Thread) -> None:
        self._end.set()
        thread.join()
        self._hand_back(self._new() + b"\n")
        self._settled = True

    def _follow(self) -> None:
        while not self._end.wait(POLL_S):
            self._hand_back(self._new())

    def _new(self) -> bytes:
        try:
            with self._file.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self._read:  # NCCL opened it anew, which cuts it
                    self._read, self._begun = 0, b""
                file.seek(self._read)
                found = file.read()
        except OSError:
            return b""
        self._read += len(found)
        return found

    def _hand_back(self, found: bytes) -> None:
        *whole, self._begun = (self._begun + found).split(b"\n")
        # A carriage return within a line would be the end of one to whoever reads the log as text.
        for line in (one.decode(errors="replace").replace("\r", " ").rstrip() for one in whole):
            if not line:
                continue
            if not self._settled:
                self._digest.update((f"\n{line}" if self._count else line).encode())
                self._count += 1
            for name, pattern in _VERSIONS.items():
                if told := pattern.search(line):
                    self.versions[name] = told[1]
            # One write: what Ray finds without its end is a line of its own to it.
            sys.stdout.write(f"{self._mark} {line}\n")
            sys.stdout.flush()


@contextmanager
def handed_back(rank: int, backend: str) -> Iterator[NcclLines]:
    """Around all that a rank does with NCCL, also where that fails. With another backend there are no lines.

    Raises TrainingError where NCCL's file is not this rank's own.
    """
    lines = NcclLines(rank)
    if backend == "nccl":
        if failure := os.environ.get(_FAILURE):
            raise TrainingError(f"no directory for NCCL's lines on this node: {failure}")
        pattern = os.environ.get(VARIABLE, "")
        if not _is_own(pattern):
            raise TrainingError(
                f"{VARIABLE} {pattern}: must be an absolute path with %p, which NCCL replaces by each rank's pid "
                "(and best %h, the host's name): otherwise ranks write over each other's lines; or leave it unset"
            )
        lines.follow(expand(pattern))
    try:
        yield lines
    finally:
        lines.finish()
