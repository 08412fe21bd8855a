"""Reading takes time in proportion to the log, whatever is in it, and memory has a bound.

Each log grows by one thing: four times as much of it takes sixteen times as long where something is quadratic. CPU time
is compared, and once more where it says so, since a busy machine can make one measurement long but not all.
"""

import re
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from workload.nccl import log, pieces
from workload.nccl.process import MOST_LIVE
from workload.nccl.records import LONGEST_LINE
from workload.nccl.report import TransportReport
from workload.nccl.rule import judge_report
from workload.verdict import Wanted

H = b"a:1:1 [0] NCCL INFO "
SEND = b"Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0"


def init(pid: int, pointer: int, rank: int, ranks: int, of: str, state: str = "COMPLETE") -> bytes:
    said = f"comm 0x{pointer:x} rank {rank} nranks {ranks} cudaDev 0 nvmlDev 0 busId 00 {of} - Init {state}"
    return f"a:{pid}:{pid} [0] NCCL INFO {said}".encode()


# One line, up to the longest that is read.
LINES: dict[str, Callable[[int], bytes]] = {
    "spaces before a mark": lambda n: H + b" " * n + b"[repeated 2x",
    "digits of a topology": lambda n: (
        H + b"comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank " + b"1" * n + b"x"
    ),
    "digits everywhere": lambda n: H + b"comm 0x1 rank " + b"1" * n,
    "one word": lambda n: b" NCCL " + b"a" * n,
    "one word behind a head": lambda n: H + b"NET/OFI Selected provider is " + b"a" * n,
    "heads": lambda n: b"a:1:1 [0] " * (n // 10) + b" NCCL ",
    "heads of INFO": lambda n: H * (n // len(H)),
    "hosts": lambda n: b"-.-" * (n // 3) + b":1:1 [0] NCCL INFO",
    "colours": lambda n: H + b"\x1b[1;" * (n // 4),
    "a colour": lambda n: H + b"Usi\x1b[" + b"1;" * (n // 2),
    "channels": lambda n: H + SEND * (n // len(SEND)),
    "pairs": lambda n: H + b"comm 0x1 rank 0 nranks 2 " + b"cudaDev 0 " * (n // 10) + b"- Init ",
    "interfaces": lambda n: H + b"NET/IB : Using" + b" [0]mlx:1/RoCE" * (n // 14),
    "an interface": lambda n: H + b"NET/IB : Using [0]" + b"a" * n,
    "a plugin": lambda n: H + b"External network plugin " + b"a is " * (n // 5),
    "brackets": lambda n: b"(W pid=" + b"1" * n + b", ip=1) " + H,
}


def lines_of(number: int, text: Callable[[int], bytes]) -> bytes:
    return b"".join(text(i) + b"\n" for i in range(number))


# Of so many lines.
LOGS: dict[str, Callable[[int], bytes]] = {
    "blank lines": lambda n: b"NCCL [repeated \n" + (b" " * 99 + b"\n") * n,
    "long words": lambda n: lines_of(n, lambda i: b" NCCL " + b"a" * 600),
    "pieces of a line": lambda n: b"(W pid=1) " + H + b"Channel 0\n" + b"(W pid=1) 0\n" * n,
    "words alone": lambda n: H + b"NET/OFI Selected provider is efa, fabric is \n" + b"x\n" * n,
    "lines that may go on": lambda n: lines_of(n, lambda i: b"(W pid=%d) a:%d:1 [0] NCCL INFO Channel 0" % (i, i)),
    "heads cut": lambda n: lines_of(n, lambda i: b"(W pid=%d) a:" % i),
    "lines in one": lambda n: lines_of(
        n, lambda i: b"h%d:1:1 [0] NCCL INFO Using network IBh%d:1:1 [0] NCCL INFO y" % (i, i)
    ),
    "threads": lambda n: lines_of(n, lambda i: b"a:1:%d [0] NCCL INFO Using network Socket" % i),
    "processes alone one after the other": lambda n: lines_of(n, lambda i: init(i, 1, 0, 1, f"commId 0x{i:x}")),
    "processes alone side by side": lambda n: (
        lines_of(n, lambda i: init(i, 1, 0, 1, f"commId 0x{i:x}", "START"))
        + lines_of(n, lambda i: init(i, 1, 0, 1, f"commId 0x{i:x}"))
    ),
    "processes without communicator": lambda n: lines_of(
        n, lambda i: init(i, 1, 0, 1, f"commId 0x{i:x}") + b"\nb:%d:1 [0] NCCL INFO Using network Socket" % i
    ),
    "splits of splits": lambda n: lines_of(
        n,
        lambda i: (
            init(1, i, 0, 2, f"parent 0x{i - 1:x} splitCount 1 color 0 key 0" if i else "commId 0x1")
            + (b"\n" + H + b"comm 0x%x rank 0 nranks 2 - Destroy COMPLETE" % (i - 1) if i else b"")
        ),
    ),
    "communicators, each with a channel": lambda n: lines_of(
        n, lambda i: init(1, i, 0, 2, f"commId 0x{i:x}") + b"\n" + H + SEND
    ),
    "communicators, then channels": lambda n: (
        lines_of(n, lambda i: init(1, i, 0, 2, f"commId 0x{i:x}"))
        + lines_of(n, lambda i: H + SEND.replace(b"00", b"%d" % i))
    ),
    "a communicator's ranks": lambda n: lines_of(n, lambda i: init(i, 1, i, 999_999_999, "commId 0x1")),
    "a ring": lambda n: (
        lines_of(n, lambda i: init(i, 1, i, n, "commId 0x1"))
        + lines_of(
            n, lambda i: b"a:%d:1 [0] NCCL INFO Channel 0 : %d[0] -> %d[0] [send] via NET/OFI/0" % (i, i, (i + 1) % n)
        )
    ),
}


def read(*chunks: bytes) -> TransportReport:
    return log.read([("job.log", chunks)])


def seconds(text: bytes) -> float:
    began = time.process_time()
    report = read(text)
    for expect in ("efa", "gloo"):
        judge_report(report, Wanted(expect=expect))
    return time.process_time() - began


def grows_in_proportion(less: bytes, more: bytes) -> bool:
    return any(seconds(more) < 9 * seconds(less) + 0.02 for _ in range(4))


@pytest.mark.parametrize("what", LINES)
def test_a_line_four_times_as_long_takes_no_sixteen_times_as_long(what: str) -> None:
    less, more = (LINES[what](size)[:LONGEST_LINE] + b"\n" for size in (LONGEST_LINE // 4, LONGEST_LINE))
    assert grows_in_proportion(less, more)


@pytest.mark.parametrize("what", LOGS)
def test_four_times_as_many_lines_take_no_sixteen_times_as_long(what: str) -> None:
    assert grows_in_proportion(LOGS[what](600), LOGS[what](2400))


def facts(number: int) -> Iterator[bytes]:
    """Each line another process, of which none has said anything before."""
    return (init(i, i, i, 999_999_999, f"commId 0x{i:x}") + b"\n" for i in range(number))


def test_facts_past_the_limit_are_counted_and_leave_nothing_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_FACTS", 100)
    report = read(*facts(150))
    ranks = sum(len(one.members) for attempt in report.attempts for one in attempt.communicators)
    assert ranks == 49, "a process and a rank each, and the process whose rank is one fact too many"
    verdict = judge_report(report, Wanted(expect="efa"))
    assert verdict.value == "unproven"
    assert any(re.fullmatch(r"input: \d+ facts more than are held", reason) for reason in verdict.reasons)


def test_memory_stops_growing_at_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_FACTS", 100)
    monkeypatch.setattr(pieces, "_MOST_PREFIXES", 100)

    def peak(lines: int) -> int:
        tracemalloc.start()
        log.read([("job.log", facts(lines))])
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    few = peak(500)
    assert peak(5_000) < 2 * few


def test_a_process_of_more_communicators_than_any_has_is_told_as_more_than_is_held() -> None:
    said = lines_of(MOST_LIVE + 10, lambda i: init(1, i, 0, 2, f"commId 0x{i:x}"))
    report = read(said)
    assert len(report.attempts[0].communicators) == MOST_LIVE
    assert report.lost.beyond == 10
    one_after_the_other = lines_of(
        MOST_LIVE + 10,
        lambda i: init(1, i, 0, 2, f"commId 0x{i:x}") + b"\n" + H + b"comm 0x%x rank 0 nranks 2 - Destroy COMPLETE" % i,
    )
    assert read(one_after_the_other).lost.beyond == 0


@pytest.mark.parametrize("size", [997, LONGEST_LINE, 1 << 20])
@pytest.mark.parametrize("where", [0, 100, LONGEST_LINE - 2, LONGEST_LINE + 5, 3 * LONGEST_LINE])
def test_a_line_too_long_is_counted_once_wherever_chunks_are_cut(size: int, where: int) -> None:
    long = b"x" * where + b" NCCL INFO " + b"y" * (4 * LONGEST_LINE - where)
    text = b"one\n" + long + b"\n" + H + b"Using network Socket\n" + b"z" * 2 * LONGEST_LINE
    report = read(*(text[at : at + size] for at in range(0, len(text), size)))
    assert (report.lines, report.lost.too_long, report.lost.at) == (4, 1, (("too_long", ("job.log", 2)),))
    assert report.attempts[0].processes[0].networks[0].place.line == 3
