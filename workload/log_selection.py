"""PURE: which lines of a job's log are a rank's, NCCL's, or the driver's own.

Ray puts `(Actor pid=..., ip=...) ` before each line that another process than the driver prints, without the address
where it is on the driver's node. Ray Train's controller says which process is which rank, in every attempt anew.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from workload.job_record import MARK

Select = Callable[[str], Iterable[str]]

# ECMA-48: a control sequence (colours, cursor), a string (a window's title, the clipboard), any other escape; and every
# control character but the tab.
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)|\x1b[ -/]*[0-~]|[\x00-\x08\x0a-\x1f\x7f-\x9f]"
)
_PREFIX = re.compile(r"\((?P<actor>\w[\w.:()-]*?)(?: \+\w+)?(?: pid=(?P<pid>\d+))?(?:, ip=(?P<ip>[0-9a-fA-F.:]+))?\) ?")
_PLACE = re.compile(r"\(ip=(?P<ip>[0-9a-fA-F.:]+), pid=(?P<pid>\d+)\) world_rank=(?P<rank>\d+)\b")
_DRIVER_AT = re.compile(r"Connecting to existing Ray cluster at address: (?P<ip>[0-9a-fA-F.:]+?):\d+\.\.\.")
_NCCL_MARK = re.compile(r"\[nccl rank (?P<rank>\d{1,9}) #[0-9a-f]{8}\] ")
_NCCL = re.compile(r"\bNCCL (?:INFO|WARN|TRACE|VERSION)\b|\bNCCL version \d")
# What comes before the line that says whose it is: a rank's first words, never its training.
_MOST_HELD = 10_000


def without_colour(line: str) -> str:
    """The line as a pipe should get it, with nothing that a terminal would obey."""
    return _ESCAPE.sub("", line)


def everything(line: str) -> Iterable[str]:
    return (line,)


def nccl(line: str) -> Iterable[str]:
    """Marked by the rank that handed them back, or as NCCL prints them by itself."""
    return (line,) if _NCCL_MARK.search(line) or _NCCL.search(line) else ()


def driver(line: str) -> Iterable[str]:
    """What the job's own program prints, its record left out: that is a file's, `record.json`."""
    return () if _process(line) or line.startswith(MARK) else (line,)


class OfRank:
    """The lines of one rank, in all attempts. `known` are the ranks that the log has named so far."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._places: dict[tuple[str, str], int] = {}
        self._held: list[tuple[tuple[str, str], str]] = []
        self._driver_ip = ""
        self.known: set[int] = set()

    def __call__(self, line: str) -> Iterable[str]:
        """A line whose process is not known yet is held back, and comes once it is."""
        return tuple(self._of(line))

    def _of(self, line: str) -> Iterator[str]:
        if marked := _NCCL_MARK.search(line):
            self.known.add(int(marked["rank"]))
            if int(marked["rank"]) == self._rank:
                yield line
            return
        if at := _DRIVER_AT.search(line):
            self._driver_ip = at["ip"]
        process = _process(line)
        if place := _PLACE.search(line):
            yield from self._placed(place["ip"], place["pid"], int(place["rank"]))
        elif process is not None:
            rank = self._rank_of(process)
            if rank == self._rank:
                yield line
            elif rank is None and len(self._held) < _MOST_HELD:
                self._held.append((process, line))

    def _placed(self, ip: str, pid: str, rank: int) -> Iterator[str]:
        self._places[ip, pid] = rank
        self.known.add(rank)
        held, self._held = self._held, []
        for process, line in held:
            found = self._rank_of(process)
            if found is None:
                self._held.append((process, line))
            elif found == self._rank:
                yield line

    def _rank_of(self, process: tuple[str, str]) -> int | None:
        """Pods have pids of their own, so that several ranks may share one: without an address it is the driver's."""
        ip, pid = process
        if ip:
            return self._places.get((ip, pid))
        here = self._places.get((self._driver_ip, pid))
        if here is not None or any(ip == self._driver_ip for ip, _ in self._places):
            return here
        alike = {rank for (_, of), rank in self._places.items() if of == pid}
        return alike.pop() if len(alike) == 1 else None


def _process(line: str) -> tuple[str, str] | None:
    """Address, empty on the driver's node, and pid of the process that printed the line; None for the driver."""
    found = _PREFIX.match(line)
    if found is None or (found["pid"] is None and found["actor"] not in ("raylet", "autoscaler", "gcs_server")):
        return None
    return found["ip"] or "", found["pid"] or ""
