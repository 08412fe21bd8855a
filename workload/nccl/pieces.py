"""PURE: the lines of one file: heads read, pieces put together, lost ones counted.

Ray's (pid, ip) tells which pieces belong together; without it, a piece belongs to the line before it.
"""

import re
from collections import Counter
from itertools import pairwise
from typing import Protocol

from workload.nccl.fact import PART, UNKNOWN, Parsed
from workload.nccl.head import (
    COLOUR,
    HEAD_PART,
    LOST_HEAD,
    TAIL,
    TELLING_HEAD,
    Head,
    beginnings,
    cleaned,
    find,
    split,
)
from workload.nccl.host_names import AT_THE_START, BEHIND_A_BRACKET, BEHIND_A_PIECE, HostNames
from workload.nccl.line import STARTS, WIDTH, is_distinct, parse
from workload.nccl.report import Place

_LONGEST_HEAD = 2048
# NCCL's own lines have at most 1024 bytes.
_LONGEST_BODY = 4096
_LONGEST_PREFIX = 512
_MOST_PREFIXES = 20_000
# Records of the same process that may stand between two pieces of one of its lines (standard error is a stream apart).
_STRANGERS = 3
# Lines of others that may stand between two pieces: a thousand ranks that write ten each at the same time.
_APART = 10_000


# ATTN, between the two, is there from NCCL 2.32 on.
_LEVELS = frozenset({b"INFO ", b"WARN ", b"ATTN "})


class Sink(Protocol):
    """Takes what the records say."""

    def process(self, head: Head, place: Place) -> None: ...

    def renamed(self, pid: int, old: str, new: str) -> None: ...

    def line(self, head: Head, body: str, *, warn: bool, place: Place) -> Parsed: ...

    def version(self, version: str) -> None: ...


class _Open:
    """A line that may go on; `head` is None while what is there is less than a head."""

    __slots__ = ("body", "head", "place", "raw", "strangers", "warn")

    def __init__(
        self, raw: bytes, place: Place, head: Head | None = None, body: str = "", *, warn: bool = False
    ) -> None:
        self.raw, self.place, self.head, self.body, self.warn = raw, place, head, body, warn
        self.strangers = 0


class Pieces:
    """Of one file; every line that may matter is given to it in order, with its number."""

    def __init__(self, sink: Sink, file: str) -> None:
        self._sink, self._file = sink, file
        self.nccl_lines = 0
        self.lost: Counter[str] = Counter()
        self.lost_at: dict[str, Place] = {}
        self._open: dict[bytes, _Open] = {}
        self._prefixes: dict[bytes, Head] = {}
        self._keys: set[bytes] = set()
        self._names: set[bytes] = set()
        self._hosts = HostNames()

    @property
    def waits(self) -> bool:
        """Whether any line may go on, so that no line can be passed over."""
        return bool(self._open)

    def take(self, line: bytes, number: int) -> None:
        if b"NCCL" in line:
            self._nccl(line, number)
        elif line:
            key, rest = split(line, self._keys)
            if key in self._open or HEAD_PART.fullmatch(rest) or TAIL.search(rest):
                self._piece(key, rest, number)

    def close_old(self, number: int) -> None:
        for key in [key for key, held in self._open.items() if number - held.place.line > _APART]:
            self._close(self._open.pop(key))

    def close_all(self, *, cut_at: int | None) -> None:
        """`cut_at` is the last line's number where the file ends within it."""
        for held in self._open.values():
            self._close(held, cut=held.place.line == cut_at)
        self._open.clear()

    def lose(self, what: str, line: int) -> None:
        self.lost[what] += 1
        self.lost_at.setdefault(what, Place(self._file, line))

    def _nccl(self, line: bytes, number: int) -> None:
        at = line.find(b" NCCL ")
        level = line[at + 6 : at + 11]
        head = self._prefixes.get(line[:at]) if at >= 0 and level in _LEVELS else None
        if head is not None and line.find(b" NCCL ", at + 6) < 0:
            self._headed(head, line, at + 11, Place(self._file, number), warn=level != b"INFO ")
            return
        key, text = split(line, self._keys)
        text = COLOUR.sub(b"", text) if b"\x1b" in text else text
        held = self._held(key, number)
        goes_on = held is not None and held.head is not None and not held.body
        if text.startswith(b"NCCL version ") and not goes_on and not find(text):
            self._sink.version(text[13:80].decode("ascii", "replace").split(" ")[0].strip())
            return
        # Without Ray's prefix two processes may have written into one line.
        starts = beginnings(text, self._names) if text.count(b" NCCL ") > 1 else []
        bounds = [0, *starts[1:], len(text)]
        for begin, end in pairwise(bounds):
            if found := find(text, begin, end):
                whole = len(bounds) == 2 and found.end() == len(text)
                self._found(key, found, line[:at] if whole else None, number)
            else:
                self._piece(key, text[begin:end], number)

    def _found(self, key: bytes, found: re.Match[bytes], prefix: bytes | None, number: int) -> None:
        place = Place(self._file, number)
        head = self._head(key, found, place)
        # Not while the host's name may change.
        if prefix is not None and len(prefix) <= _LONGEST_PREFIX and not self._hosts.may_change(key):
            if len(self._prefixes) >= _MOST_PREFIXES:
                self._prefixes.clear()
            self._prefixes[prefix] = head
        body = found[4] or b""
        level = found.string[found.start() : found.start(4) if found[4] is not None else found.end()].rstrip()
        self._headed(
            head,
            found.string[found.start() : found.end()],
            len(found[0]) - len(body),
            place,
            warn=level[-4:] != b"INFO",
        )

    def _head(self, key: bytes, found: re.Match[bytes], place: Place) -> Head:
        host, pid = found[1].decode("ascii", "replace"), int(found[2])
        if key:
            host, replaced = self._hosts.take(key, host, self._sureness(key, found))
            if replaced is not None:
                self._sink.renamed(pid, replaced, host)
                self._prefixes.clear()
        if len(self._names) < _MOST_PREFIXES:
            self._names.add(host.encode())
        head = Head(key, host, pid, int(found[3]))
        self._sink.process(head, place)
        return head

    def _sureness(self, key: bytes, found: re.Match[bytes]) -> int:
        if found.string.endswith(b"] ", 0, found.start()):
            return BEHIND_A_BRACKET
        held = self._open.get(key)
        return BEHIND_A_PIECE if held is not None and held.head is None else AT_THE_START

    def _headed(self, head: Head, line: bytes, at: int, place: Place, *, warn: bool) -> None:
        self.nccl_lines += 1
        if (held := self._open.pop(head.key, None)) is not None:
            self._close(held)
        start = line[at : at + WIDTH] if line[at : at + 1] != b"\x1b" else cleaned(line[at:])[:WIDTH]
        if start in STARTS or warn or len(start) < WIDTH:
            body = cleaned(line[at : at + _LONGEST_BODY]).decode("utf-8", "replace")
            self._open[head.key] = _Open(b"", place, head, body, warn=warn)

    def _piece(self, key: bytes, text: bytes, number: int) -> None:
        """A record without a head of its own: the rest of the open line, the beginning of a head, or neither."""
        text = cleaned(text)
        if not text:
            return
        held = self._held(key, number)
        if held is not None and held.head is not None:
            begins = TELLING_HEAD.match(text)
            if not begins and self._goes_on(held, text.decode("utf-8", "replace")):
                return
            held.strangers += 1
            part = parse(held.body) is PART
            if part and not is_distinct(held.body):
                # Put together they are another line than one that tells: nothing is lost.
                del self._open[key]
            elif part and held.strangers <= _STRANGERS and not begins:
                return
            else:
                self._close(self._open.pop(key))
        elif held is not None and not TELLING_HEAD.match(text):
            joined = held.raw + text
            if found := find(joined):
                held.raw = b""
                self._found(key, found, None, held.place.line)
                return
            if len(joined) <= _LONGEST_HEAD and HEAD_PART.fullmatch(joined):
                held.raw = joined
                return
            self._close(self._open.pop(key))
        if len(text) <= _LONGEST_HEAD and HEAD_PART.fullmatch(text):
            self._open[key] = _Open(text, Place(self._file, number))
        elif TAIL.search(text):
            self.lose("fragments", number)

    def _held(self, key: bytes, number: int) -> _Open | None:
        """What may go on in a line: how far it may stand from that does not depend on when `close_old` is called."""
        held = self._open.get(key)
        if held is not None and number - held.place.line > _APART:
            self._close(self._open.pop(key))
            return None
        return held

    def _goes_on(self, held: _Open, text: str) -> bool:
        for joined in ((held.body + text).lstrip(), f"{held.body} {text}"):
            said = parse(joined, strict=True)
            # What says no more than before does not belong to it.
            more = said is PART or (said is not None and said is not UNKNOWN and said != parse(held.body))
            if more and len(joined) <= _LONGEST_HEAD:
                held.body, held.strangers = joined, 0
                return True
        return False

    def _close(self, held: _Open, *, cut: bool = False) -> None:
        if held.head is None:
            if LOST_HEAD.search(held.raw):
                self.lose("truncated" if cut else "fragments", held.place.line)
            return
        said = self._sink.line(held.head, held.body, warn=held.warn, place=held.place)
        if said is PART:
            self.lose("truncated" if cut else "fragments", held.place.line)
        elif said is UNKNOWN:
            self.lose("unknown", held.place.line)
