"""Pure arithmetic of an all-reduce's bandwidth, by the definitions of nccl-tests (doc/PERFORMANCE.md).

GB/s are 10^9 bytes a second; sizes on a command line are binary: 64M is 64 x 2^20 bytes.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TYPE, ELEMENT_BYTES, OPERATION = "float", 4, "sum"
DEFAULT_SIZES = {"nccl": ("256M", "1G"), "gloo": ("1M", "8M", "64M")}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# What a rank takes: the buffer, as much again for the backend, and what the result is compared with.
_BUFFERS, _BESIDE_BYTES = 2, 128 << 20


def bytes_of(text: str) -> int | None:
    """64M as 67108864; None for what is no size of whole elements."""
    match = re.fullmatch(r"([1-9]\d*)([KMG]?)", text)
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    return size if size and size % ELEMENT_BYTES == 0 else None


def text_of(size: int) -> str:
    """In the largest unit that leaves a whole number."""
    unit = next(unit for unit, factor in reversed(_UNITS.items()) if size % factor == 0)
    return f"{size // _UNITS[unit]}{unit}"


def bytes_needed(size: int) -> int:
    """Memory of one rank for an all-reduce of `size` bytes."""
    return _BUFFERS * size + _BESIDE_BYTES


def share_of_memory(free: Sequence[tuple[str, int]]) -> int:
    """Bytes that every rank can take, from each rank's memory: which one it is, and what of it is free in bytes."""
    ranks = Counter(memory for memory, _ in free)
    return min(free_bytes // ranks[memory] for memory, free_bytes in free)


def bytes_to_move(sizes: Sequence[int], iterations: int) -> int:
    """The least that a node among several must send, and must receive, for `iterations` all-reduces of each size.

    Each element's sum depends on every node: whatever the algorithm, a node's own part of it leaves the node once, and
    that of the others, or the sum, comes in once. A ring over n nodes moves 2(n-1)/n times as much.
    """
    return iterations * sum(sizes)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One size. `seconds` is the mean of an iteration on the slowest rank, `wrong` the elements wrong on all ranks."""

    size: int
    ranks: int
    seconds: float
    wrong: int

    @property
    def algbw_gbs(self) -> float:
        return self.size / self.seconds / 1e9

    @property
    def busbw_gbs(self) -> float:
        """What the slowest link carries: 2(n-1)/n of the size goes through each rank's, however many there are."""
        return self.algbw_gbs * 2 * (self.ranks - 1) / self.ranks

    def as_json(self) -> dict[str, Any]:
        return {
            "bytes": self.size,
            "count": self.size // ELEMENT_BYTES,
            "type": TYPE,
            "op": OPERATION,
            "time_us": self.seconds * 1e6,
            "algbw_gbs": self.algbw_gbs,
            "busbw_gbs": self.busbw_gbs,
            "wrong": self.wrong,
        }
