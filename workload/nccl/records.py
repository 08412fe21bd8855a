"""PURE: from chunks of text to lines, those passed over that cannot matter.

Memory holds one chunk, and of each prefix one line that may go on.
"""

from collections import Counter
from collections.abc import Iterable

from workload.nccl.head import REPEATED, may_tell
from workload.nccl.pieces import Pieces, Sink
from workload.nccl.report import Place

LONGEST_LINE = 64 * 1024


class Records:
    """Reads one file after the other into a `Sink`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.lines = self.nccl_lines = 0
        self.lost: Counter[str] = Counter()
        self.lost_at: dict[str, Place] = {}

    def read(self, file: str, chunks: Iterable[bytes | str]) -> None:
        """Chunks are cut anywhere; lines end with a line feed."""
        self._number = self._hidden = self._first_hidden = 0
        pieces = self._pieces = Pieces(self._sink, file)
        carry = b""
        for piece in chunks:
            chunk = _encoded(piece) if isinstance(piece, str) else piece
            block = carry + chunk if carry else chunk
            end = block.rfind(b"\n")
            carry = _shortened(block[end + 1 :])
            self._block(block, end)
        if carry:
            self._stretch(carry)
        pieces.close_all(cut_at=self._number if carry else None)
        # Where none of NCCL's lines are, what was folded were other lines.
        if self._hidden and pieces.nccl_lines:
            pieces.lost["deduplicated"] = self._hidden
            pieces.lost_at["deduplicated"] = Place(file, self._first_hidden)
        self.lines += self._number
        self.nccl_lines += pieces.nccl_lines
        self.lost += pieces.lost
        self.lost_at = pieces.lost_at | self.lost_at

    def _block(self, block: bytes, end: int) -> None:
        """Whole lines up to the line feed at `end`, in stretches of which no line but the last can be too long."""
        at = 0
        while at <= end:
            stop = end if end - at <= LONGEST_LINE else block.find(b"\n", at + LONGEST_LINE)
            last = block.rfind(b"\n", at, stop) + 1 or at
            text = block[at:stop] if stop - last <= LONGEST_LINE else block[at:last] + _shortened(block[last:stop])
            self._stretch(text)
            at = stop + 1

    def _stretch(self, text: bytes) -> None:
        """Most of a job's log is none of NCCL's: lines that cannot matter are only counted."""
        if self._pieces.waits or may_tell(text):
            self._lines_of(text)
            self._pieces.close_old(self._number)
        else:
            self._number += text.count(b"\n") + 1
        if b"[repeated " in text:
            self._count_hidden(text)

    def _lines_of(self, text: bytes) -> None:
        for line in text.split(b"\n"):
            self._number += 1
            if len(line) > LONGEST_LINE:
                if b"NCCL" in line:
                    self._pieces.lose("too_long", self._number)
                line = line[:LONGEST_LINE]
            self._pieces.take(line, self._number)

    def _count_hidden(self, text: bytes) -> None:
        """In the lines that end with the one just read."""
        for found in REPEATED.finditer(text):
            self._hidden += int(found[1])
            self._first_hidden = self._first_hidden or self._number - text.count(b"\n", found.end())


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _shortened(line: bytes) -> bytes:
    """Of a line too long: its beginning, and of the rest whether NCCL is in it, or may be with what follows."""
    if len(line) <= LONGEST_LINE:
        return line
    return line[:LONGEST_LINE] + (b"\0NCCL" if b"NCCL" in line else b"\0" + line[-3:])
