"""PURE: where in its files an attempt or a process spoke, and what that tells of their order."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate, combinations

# By file, the first line and the last.
Spans = dict[str, tuple[int, int]]


def united(spans: Iterable[Spans]) -> Spans:
    whole: Spans = {}
    for one in spans:
        for file, (first, last) in one.items():
            known = whole.get(file, (first, last))
            whole[file] = (min(known[0], first), max(known[1], last))
    return whole


class Order:
    """Several spans, asked about by where they begin; answers are their indexes."""

    def __init__(self, spans: Sequence[Spans]) -> None:
        self._spans = spans
        begins: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for index, one in enumerate(spans):
            for file, (first, _) in one.items():
                begins[file].append((first, index))
        self._begins = {file: sorted(rows) for file, rows in begins.items()}
        # Of those up to each that begins, the one that ends last.
        self._ends = {
            file: list(accumulate(((spans[index][file][1], index) for _, index in rows), max))
            for file, rows in self._begins.items()
        }

    def overlapping(self, one: Spans) -> int | None:
        """The one that ends last of those that had begun in a file before `one` ended there, if not before it."""
        for file, (first, last) in one.items():
            at = bisect_right(self._begins.get(file, []), (last, len(self._spans)))
            if at and self._ends[file][at - 1][0] >= first:
                return self._ends[file][at - 1][1]
        return None

    def begun_before(self, file: str, line: int) -> int:
        return bisect_left(self._begins.get(file, []), (line, -1))

    def counting(self) -> tuple[tuple[int, ...], bool]:
        """Those that none is known to have followed, and whether they ran side by side, as far as files show."""
        last = tuple(index for index in range(len(self._spans)) if not self._followed(index))
        return last, len(last) > 1 and _side_by_side([self._spans[index] for index in last])

    def _followed(self, index: int) -> bool:
        one = self._spans[index]
        for file, (_, last) in one.items():
            for begin, other in reversed(self._begins[file]):
                if begin <= last:
                    break
                if _precedes(one, self._spans[other]):
                    return True
        return False


def _precedes(one: Spans, other: Spans) -> bool:
    return all(one[file][1] < other[file][0] for file in one.keys() & other.keys())


def _side_by_side(spans: Sequence[Spans]) -> bool:
    everywhere = set(spans[0]).intersection(*spans)
    if any(max(one[file][0] for one in spans) <= min(one[file][1] for one in spans) for file in everywhere):
        return True
    return all(_overlap(one, other) for one, other in combinations(spans, 2))


def _overlap(one: Spans, other: Spans) -> bool:
    return any(one[file][0] <= other[file][1] and other[file][0] <= one[file][1] for file in one.keys() & other.keys())
