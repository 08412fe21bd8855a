"""PURE: NCCL's lines that ranks handed back, found in a job's log by their marks; all other lines are passed over.

A rank prints each line of its NCCL file as `[nccl rank 3 #a1b2c3d4] LINE`; the eight digits are its process's own, new
in each attempt. Whatever else a log holds of NCCL (an earlier attempt, a preflight, another process) has none of them.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator

from workload.rank_evidence import Lines

_MARK = b"[nccl rank "
_MARKED = re.compile(rb"\[nccl rank \d{1,9} #([0-9a-f]{8})\] ")


class _Rank:
    def __init__(self, number: int) -> None:
        # As Ray's prefix is read: what one rank says is put together by itself, however the log mixes them.
        self.prefix = b"(nccl pid=%d) " % number
        self.count = 0
        self.hash = hashlib.sha256()

    def take(self, text: str) -> None:
        self.hash.update((f"\n{text}" if self.count else text).encode())
        self.count += 1


class MarkedLines:
    """Of the processes with these ids."""

    def __init__(self, ids: Collection[str]) -> None:
        self._ranks = {one.encode(): _Rank(number) for number, one in enumerate(ids)}

    def alone(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The log with every other line empty, so that lines keep their numbers; counts and hashes those it finds.

        A line that came folded, coloured or cut is hashed as it came, so that it is not the one its rank wrote.
        """
        empty = 0
        for line in lines:
            # A program that writes a line and its end apart leaves the next one's mark behind its own text.
            found = _MARKED.search(line) if _MARK in line else None
            rank = self._ranks.get(found[1]) if found else None
            if found is None or rank is None:
                empty += line.endswith(b"\n")
                continue
            text = line[found.end() :].decode("utf-8", "replace").rstrip()
            rank.take(text)
            yield b"\n" * empty + rank.prefix + text.encode() + b"\n"
            empty = 0
        yield b"\n" * empty

    def delivered(self, one: str) -> Lines:
        """What was found of an id, once all lines have been taken."""
        rank = self._ranks[one.encode()]
        return Lines(id=one, count=rank.count, sha256=rank.hash.hexdigest())
