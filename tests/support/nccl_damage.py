"""NCCL logs damaged in every way that a log can be, and some that it cannot: for fuzzing what reads them.

Each way takes a log and a `Random` and gives another log; nothing here is random but by that `Random`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random

from workload.nccl.report import TransportReport

# A case reads its log several times: larger ones would only make fewer cases.
LARGEST = 200_000
_WORDS = tuple(
    word.encode()
    for word in (
        " NCCL ", " NCCL INFO ", " NCCL WARN ", "node-a:70:70 [0] NCCL INFO ", "node-b:72:72 [0] ", ":1:1 [0] ",
        "NCCL version 2.29.3+cuda12.4", "Using network Socket", "Using network Libfabric", "Using network ",
        "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0", "Channel 00 : 1[1] -> 0[0] via P2P/CUMEM", "Channel ",
        " via NET/", "NET/Libfabric/0(4)/GDRDMA(PCI)/Shared", "NET/OFI Selected provider is efa, fabric is ",
        "NET/OFI Selected Provider is tcp (found 4 nics)", "NET/OFI aws-ofi-nccl initialization failed",
        "Failed to initialize any NET plugin", "comm 0x5500 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 38000 ",
        "commId 0xfc6023afed4eb833 - Init COMPLETE", " - Init START",
        "comm 0x5500 rank 0 nRanks 4 nNodes 2 localRanks 2 ", "parent 0x5500 splitCount 1 color 0 key 0",
        " - Destroy COMPLETE", "NET/IB : Using [0]mlx5_0:1/RoCE", "NET/Plugin: Could not find: libnccl-net.so",
        "External network plugin x is unsupported", "\x1b[36m(RayTrainWorker pid=70, ip=10.0.1.9)\x1b[0m ",
        "(RayTrainWorker pid=70) ", "(pid=", " pid=7, ip=", " [repeated 3x across cluster]",
        "[repeated 999999999999x across cluster]", "[repeated ", "[nccl rank 3 #a1b2c3d4] ", "[1,3]<stdout>:", "3: ",
        "[rank3]:", "[pod/trainer-0/main] ", "[2026-05-03 08:15:07] ", "\x1b[0m", "\x1b[31;1m", "\x1b[", "\r",
        "\r\n", "\n", "\n\n", "\0", " ", "\t", "\u2028", "\u202e", "\ufeff", "\u0661", "\U0001f525", "e\u0301" * 20,
        "\x85",
    )
)  # fmt: skip
_NUMBERS = tuple(
    number.encode()
    for number in (
        "0", "-1", "00", "7", "70", "255", "65536", "2147483648", "999999999", "9999999999", "18446744073709551616",
        "9" * 40, "1" * 5000, "0x", "1e9", "NaN", "\u0663", "\uff11\uff12",
    )
)  # fmt: skip
_PREFIXES = tuple(
    prefix.encode()
    for prefix in (
        "\x1b[36m(RayTrainWorker pid={n}, ip=10.0.1.{n})\x1b[0m ", "(RayTrainWorker pid={n}) ",
        "(head, pid=1) (W pid={n}) ", "[pod/trainer-{n}/main] ", "[1,{n}]<stdout>:", "{n}: ", "[rank{n}]:",
        "[2026-05-03 08:15:07.{n}] ", "[nccl rank {n} #a1b2c3d4] ", "E0503 08:15:07.{n}  7 x.cc:9] ",
        "node-{n}:{n}: ", "\ufeff", "NCCL ", " NCCL INFO ", "((((", "\r",
    )
)  # fmt: skip

Way = Callable[[bytes, Random, Sequence[bytes]], bytes]


def damaged(logs: Sequence[bytes], chance: Random) -> bytes:
    """One of `logs`, damaged in up to eight ways."""
    log = chance.choice(logs)
    for way in chance.choices(WAYS, k=chance.choice([1, 1, 2, 3, 5, 8])):
        log = way(log, chance, logs)[:LARGEST]
    return log


def fewer(log: bytes, chance: Random) -> bytes:
    """Some of its lines, each as it was."""
    return _lines_dropped(log, chance, ())


def contradicted(log: bytes, report: TransportReport, chance: Random) -> Iterator[bytes]:
    """The log of a run between hosts with a line more: a channel that the report rests on, said again over sockets
    anywhere behind it, or its process choosing sockets."""
    across = [edge for index in report.counting for edge in report.attempts[index].edges if edge.between_hosts]
    edge = chance.choice(across)
    lines = log.split(b"\n")
    said, way = lines[edge.place.line - 1], f"via NET/{edge.network}/".encode()
    # Not where it is said in pieces.
    if said.count(way) == 1 and said.count(b" NCCL ") == 1:
        at = chance.randint(edge.place.line, len(lines) - 1)
        yield b"\n".join([*lines[:at], said.replace(way, b"via NET/Socket/"), *lines[at:]])
    chose = f"{edge.host}:{edge.pid}:{edge.pid} [0] NCCL INFO Using network Socket\n"
    yield log + (b"" if log.endswith(b"\n") else b"\n") + chose.encode()


def pieces(log: bytes, chance: Random, most: int) -> list[bytes]:
    bounds = [0, *sorted(chance.randint(0, len(log)) for _ in range(chance.randint(0, most))), len(log)]
    return [log[begin:end] for begin, end in pairwise(bounds)]


def _span(log: bytes, chance: Random, most: int) -> tuple[int, int]:
    begin = chance.randint(0, len(log))
    return begin, min(len(log), begin + chance.randint(0, chance.choice([4, 40, 400, most])))


def _cut(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    begin, end = _span(log, chance, len(log))
    return chance.choice([log[:begin], log[begin:], log[:begin] + log[end:]])


def _spliced(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    other = chance.choice(logs)
    begin, end = _span(other, chance, len(other))
    at = chance.randint(0, len(log))
    return log[:at] + other[begin:end] + log[at:]


def _doubled(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    begin, end = _span(log, chance, 3000)
    return log[:end] + log[begin:end] * chance.choice([1, 2, 20]) + log[end:]


def _pumped(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    """A few bytes over and over, within a line of any length: what makes a bad pattern slow."""
    begin, end = _span(log, chance, 12)
    text = (log[begin:end] or b"a").replace(b"\n", b" ") if chance.random() < 0.8 else log[begin:end] or b"\n"
    return log[:end] + text * (chance.choice([100, 2000, 70_000]) // len(text)) + log[end:]


def _flipped(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    text = bytearray(log or b"\0")
    for _ in range(chance.choice([1, 3, 30])):
        text[chance.randrange(len(text))] ^= 1 << chance.randrange(8)
    return bytes(text)


def _noise(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    begin, end = _span(log, chance, 50)
    return log[:begin] + chance.randbytes(chance.randint(0, 60)) + log[end:]


def _words(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    for _ in range(chance.choice([1, 3, 12])):
        begin, end = _span(log, chance, 30)
        log = log[:begin] + chance.choice(_WORDS) + log[chance.choice([begin, end]) :]
    return log


def _numbers(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    odds = chance.choice([0.002, 0.02, 0.2])
    return re.sub(rb"\d+", lambda found: chance.choice(_NUMBERS) if chance.random() < odds else found[0], log)


def _prefixed(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    """On some lines, also one within the other."""
    share, most = chance.choice([0.05, 0.5, 1.0]), chance.choice([1, 1, 3])
    lines = log.split(b"\n")
    for at, _ in enumerate(lines):
        for _ in range(most if chance.random() < share else 0):
            lines[at] = chance.choice(_PREFIXES).replace(b"{n}", b"%d" % chance.choice([7, 70, 72])) + lines[at]
    return b"\n".join(lines)


def _wrapped(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    """Line feeds gone, or new ones within lines, each piece with its line's own prefix as Ray has it."""
    share, cut = chance.choice([0.02, 0.2]), chance.random() < 0.5
    lines = []
    for line in log.split(b"\n"):
        prefix = line[: line.find(b") ") + 2] if b" pid=" in line else b""
        whole = chance.random() > share
        first, *rest = [line] if whole or not cut else pieces(line, chance, 3)
        lines += [first, *(prefix + one for one in rest)]
        if not whole and not cut and len(lines) > 1:
            lines[-2:] = [lines[-2] + lines[-1]]
    return b"\n".join(lines)


def _endings(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    return log.replace(
        b"\n", chance.choice([b"\r\n", b"\r", b"\n\n", b"\x1b[0m\n", b" \n", b" [repeated 2x across cluster]\n"])
    )


def _lines_dropped(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    share = chance.choice([0.02, 0.1, 0.5])
    return b"\n".join(line for line in log.split(b"\n")[:-1] if chance.random() > share) + b"\n"


def _lines_doubled(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    share = chance.choice([0.02, 0.3])
    return b"\n".join(one for line in log.split(b"\n") for one in [line] * (1 + (chance.random() < share)))


def _lines_moved(log: bytes, chance: Random, logs: Sequence[bytes]) -> bytes:
    lines = log.split(b"\n")[:-1]
    begin = chance.randint(0, len(lines))
    window = lines[begin : begin + chance.choice([3, 10, 1000])]
    chance.shuffle(window)
    return b"\n".join([*lines[:begin], *window, *lines[begin + len(window) :]]) + b"\n"


WAYS: tuple[Way, ...] = (
    _cut, _spliced, _doubled, _pumped, _flipped, _noise, _words, _numbers, _prefixed, _wrapped, _endings,
    _lines_dropped, _lines_doubled, _lines_moved,
)  # fmt: skip
