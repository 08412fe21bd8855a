"""PURE: the table that nccl-tests prints, read by position: size count type redop root, then the figures.

For any launcher's prefix, and for every layout up to 2.19: out-of-place and in-place figures, one of both, `N/A`, a
timestamp after them (-S) and four more columns after each (-I). "Avg bus bandwidth" is left alone: it
is the mean over all sizes.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_TYPES = "char|u?int(?:8|32|64)?|half|float|double|bfloat16|f8e4m3|f8e5m2"
_OPERATIONS = "sum|prod|max|min|avg|mulsum|none"
_ROW = re.compile(
    rf"(?<![\w.])(?P<size>\d+)\s+(?P<count>\d+)\s+(?P<type>{_TYPES})\s+(?P<op>{_OPERATIONS})\s+(?P<root>-?\d+)(?P<rest>\s.*)"
)
_OUT_OF_BOUNDS = re.compile(r"# Out of bounds values\s*:\s*(\d+) (OK|FAILED)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MISSING = "N/A"
_GROUP, _PER_ITERATION = 4, 4
# What nccl-tests leaves empty where it measured in place only is wider than any gap between two figures.
_NO_GROUP = " " * 30


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Microseconds, GB/s, and how many elements were wrong; None where that was not checked."""

    time_us: float
    algbw_gbs: float
    busbw_gbs: float
    wrong: int | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One size in bytes; `root` is -1 where there is none."""

    size: int
    count: int
    type: str
    op: str
    root: int
    out_of_place: Figures | None
    in_place: Figures | None

    @property
    def figures(self) -> tuple[Figures, ...]:
        return tuple(one for one in (self.out_of_place, self.in_place) if one is not None)

    @property
    def busbw_gbs(self) -> float:
        """The lower one, where both were measured."""
        return min(one.busbw_gbs for one in self.figures)

    @property
    def wrong(self) -> int | None:
        """Over all that was measured; None where any of it was not checked."""
        counts = [one.wrong for one in self.figures]
        return None if None in counts else sum(count for count in counts if count is not None)


@dataclass(frozen=True, kw_only=True)
class Table:
    """`out_of_bounds`: the sum of what each table's end says, None without any. `unread`: rows that are cut."""

    rows: tuple[Row, ...]
    out_of_bounds: int | None
    passed: bool | None
    unread: tuple[str, ...] = field(default=())

    @property
    def largest(self) -> Row | None:
        """Of the largest size; where that was measured again, the slowest."""
        return min(self.rows, key=lambda row: (-row.size, row.busbw_gbs), default=None)


def parse(lines: Iterable[str]) -> Table:
    """From the lines of any log; what is no part of a table is passed over."""
    rows: list[Row] = []
    unread: list[str] = []
    ends: list[tuple[int, bool]] = []
    for line in lines:
        text = _COLOUR.sub("", line.rstrip("\r\n"))
        if found := _ROW.search(text):
            row = _row(found)
            if row is None:
                unread.append(text.strip())
            else:
                rows.append(row)
        elif end := _OUT_OF_BOUNDS.search(text):
            ends.append((int(end[1]), end[2] == "OK"))
    return Table(
        rows=tuple(rows),
        out_of_bounds=sum(count for count, _ in ends) if ends else None,
        passed=all(passed for _, passed in ends) if ends else None,
        unread=tuple(unread),
    )


def _row(found: re.Match[str]) -> Row | None:
    rest = found["rest"]
    words = []
    for word in rest.split():
        if word != _MISSING and _number(word) is None:
            break
        words.append(word)
    step = _GROUP + _PER_ITERATION if len(words) >= 2 * (_GROUP + _PER_ITERATION) else _GROUP
    if len(words) not in (_GROUP, 2 * step):
        return None
    groups: list[Figures | None] = [_figures(words[start : start + _GROUP]) for start in range(0, len(words), step)]
    if len(groups) == 1:
        groups = [None, *groups] if rest.startswith(_NO_GROUP) else [*groups, None]
    if not any(groups):
        return None
    out_of_place, in_place = groups
    return Row(
        size=int(found["size"]),
        count=int(found["count"]),
        type=found["type"],
        op=found["op"],
        root=int(found["root"]),
        out_of_place=out_of_place,
        in_place=in_place,
    )


def _figures(words: list[str]) -> Figures | None:
    time_us, algbw, busbw = (_number(word) for word in words[:3])
    if time_us is None or algbw is None or busbw is None:
        return None
    wrong = _number(words[3])
    return Figures(time_us=time_us, algbw_gbs=algbw, busbw_gbs=busbw, wrong=None if wrong is None else int(wrong))


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
