"""PURE: from the text of NCCL logs to a `TransportReport`.

Any NCCL 2.18-2.30 and aws-ofi-nccl 1.4-1.21 wording, from any launcher: with or without Ray's prefix, colours, marks of
folded lines, lines in pieces, timestamps, CRLF, several attempts in a file or a file for each process. Nothing in the
text raises; what could not be read is counted.
"""

from collections.abc import Iterable

from workload.nccl.attempts import attempts_of
from workload.nccl.fact import InitLine, Odd, Parsed
from workload.nccl.head import Head
from workload.nccl.line import parse
from workload.nccl.process import ProcessLog
from workload.nccl.records import Records
from workload.nccl.report import Lost, Place, TransportReport, Warned
from workload.nccl.spans import Order

# Far more than any run says, and what a log that is not one may take of memory: about a kilobyte each.
MOST_FACTS = 500_000
MOST_WARNINGS = 1_000


class NcclLog:
    """Takes files one after the other; memory grows with what is said, not with how often."""

    def __init__(self) -> None:
        self._records = Records(self)
        self._files: list[str] = []
        self._processes: dict[tuple[str, int], ProcessLog] = {}
        self._renamed: dict[tuple[str, int], str] = {}
        self._warnings: list[tuple[ProcessLog, str, Place]] = []
        self._warned = 0
        self._held = 0
        self._nccl: str | None = None

    def read(self, file: str, chunks: Iterable[bytes | str]) -> None:
        """`file` is what places name; chunks may be cut anywhere, bytes that are no UTF-8 are tolerated."""
        if file not in self._files:
            self._files.append(file)
        self._records.read(file, chunks)

    def report(self) -> TransportReport:
        found = attempts_of(list(self._processes.values()), self._files, self._nccl)
        last, side_by_side = Order([span for span, _ in found]).counting()
        lost = self._records.lost
        return TransportReport(
            files=tuple(self._files),
            lines=self._records.lines,
            nccl_lines=self._records.nccl_lines,
            attempts=tuple(attempt for _, attempt in found),
            counting=last,
            side_by_side=side_by_side,
            warnings=tuple(
                Warned(host=process.host, pid=process.pid, text=text, place=place)
                for process, text, place in self._warnings
            ),
            warned=self._warned,
            lost=Lost(**lost, at=tuple(sorted(self._records.lost_at.items()))),
        )

    def process(self, head: Head, place: Place) -> None:
        self._process_of(head, place)

    def renamed(self, pid: int, old: str, new: str) -> None:
        """A host whose name had been read from the end of it only."""
        process = self._processes.get((old, pid))
        if process is not None and (new, pid) not in self._processes:
            self._renamed[old, pid] = process.host = new
            self._renamed.pop((new, pid), None)
            self._processes[new, pid] = self._processes.pop((old, pid))

    def version(self, version: str) -> None:
        self._nccl = version or self._nccl

    def line(self, head: Head, body: str, *, warn: bool, place: Place) -> Parsed:
        process = self._process_of(head, place)
        if process is None or (body.startswith("Channel") and process.again(body)):
            return None
        said = parse(body)
        if warn:
            self._warn(process, body, place)
        if said is None or isinstance(said, Odd):
            return said
        if self._held >= MOST_FACTS or (process.full and isinstance(said, InitLine)):
            self._records.lost["beyond"] += 1
            return said
        before = process.size
        process.take(said, body, thread=head.thread, place=place)
        self._held += process.size - before
        return said

    def _process_of(self, head: Head, place: Place) -> ProcessLog | None:
        host = head.host
        while self._renamed and (host, head.pid) in self._renamed:
            host = self._renamed[host, head.pid]
        process = self._processes.get((host, head.pid))
        if process is None:
            if self._held >= MOST_FACTS:
                self._records.lost["beyond"] += 1
                return None
            self._held += 1
            process = self._processes[host, head.pid] = ProcessLog(host, head.pid, place)
        return process

    def _warn(self, process: ProcessLog, body: str, place: Place) -> None:
        self._warned += 1
        if len(self._warnings) < MOST_WARNINGS:
            self._warnings.append((process, body[:500], place))


def read(files: Iterable[tuple[str, Iterable[bytes | str]]]) -> TransportReport:
    """One report over files, each with its name."""
    log = NcclLog()
    for file, chunks in files:
        log.read(file, chunks)
    return log.report()
