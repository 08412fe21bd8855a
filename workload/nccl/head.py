"""PURE: what stands before an NCCL line's text: Ray's prefix, a launcher's, a timestamp, HOST:PID:TID [DEVICE]."""

import re
from typing import NamedTuple

_HEAD = re.compile(
    rb"([\w.-]{1,255}):(\d{1,10}):(\d{1,10}) \[-?\w{1,8}\] (?:NCCL|.{1,1024}? NCCL) (?:INFO|WARN|ATTN)(?: (.*)|$)",
    re.DOTALL,
)
_HEAD_CORE = re.compile(rb":\d{1,10}:\d{1,10} \[")
HEAD_PART = re.compile(
    rb"(?:\[[\w:/ .,+#-]{0,64}(?:\] ?)?)?"
    rb"(?:[\w.-]{1,255}(?::\d{0,10}(?::\d{0,10}(?: (?:\[-?\w{0,8}(?:\](?: .*)?)?)?)?)?)?)?",
    re.DOTALL,
)
_HEAD_REST = re.compile(rb":\d{1,10}:\d{1,10} \[-?\w{1,8}\] ")
_NAME = re.compile(rb"[\w.-]*")
_LONGEST_NAME = 255
# Enough of a head for it to be none of anything else.
TELLING_HEAD = re.compile(rb"[\w.-]{1,255}:\d{1,10}:\d{1,10} \[")
# One that was cut within itself or within "NCCL INFO", and not another program's line of such a shape.
LOST_HEAD = re.compile(
    rb"[\w.-]{1,255}:\d{1,10}:\d{1,10} "
    rb"\[(?:-?\d{0,3}(?:\](?: (?:|N|NC|NCC|NCCL|NCCL (?:|I|IN|INF|INFO|W|WA|WAR|WARN|A|AT|ATT|ATTN)))?)?)?$"
)
# The end of a telling line, whose beginning was not found.
TAIL = re.compile(
    rb"-> -?\d{1,9}\[\w{1,16}\](?: \[(?:send|receive)\])? via |- Init COMPLETE$|Using network |"
    rb"NET/OFI Selected [Pp]rovider is "
)
_WORDS = (b"NCCL", b" via ", b"Init COMPLETE", b"Using network ", b"NET/OFI Selected ")
# Where less than a head may stand: at a line's start, behind Ray's prefix, behind a timestamp. Nothing is given back of
# what a part has taken ("++"): no shorter one would end as it must, and trying takes half the time.
_WORD = (
    rb"(?:[\w.-]++(?=:\d|:?\r?(?:\n|\Z))"
    # A rank's mark, or another bracket: nothing but that, or cut and then right before a name and a second bracket.
    rb"|\[[\w:/ .,+#-]{0,65}+(?:(?:\] ?)?(?=\r?(?:\n|\Z))|(?<=\d )\[))"
)
_STARTS = tuple(re.compile(before + _WORD) for before in (rb"\n", rb"\)(?:\x1b\[0m)?+ ?+", rb"\] ?+"))
_FIRST = re.compile(_WORD)
REPEATED = re.compile(rb"\[repeated (\d{1,12})x across cluster\]")
COLOUR = re.compile(rb"\x1b\[[\d;]{0,16}[A-Za-z]")
_RAY = re.compile(rb"\([^()\n]{0,80} pid=\d{1,10}(?:, ip=[\w.:-]{1,64})?")
_MOST_KEYS = 20_000


class Head(NamedTuple):
    """`key` is Ray's prefix, empty where there is none."""

    key: bytes
    host: str
    pid: int
    thread: int


def split(line: bytes, keys: set[bytes]) -> tuple[bytes, bytes]:
    """Ray's prefix without its colours, and the text behind it; `keys` remembers those seen."""
    at = line.find(b" pid=", 0, 200)
    if at < 0:
        return b"", line
    begin, end = line.rfind(b"(", 0, at), line.find(b")", at)
    key = line[begin:end]
    if begin < 0 or end < 0 or (key not in keys and not _RAY.fullmatch(key)):
        return b"", line
    if len(keys) < _MOST_KEYS:
        keys.add(key)
    end += 5 if line.startswith(b"\x1b[0m", end + 1) else 1
    return key, line[end + 1 :] if line[end : end + 1] == b" " else line[end:]


def find(text: bytes, begin: int = 0, end: int | None = None) -> re.Match[bytes] | None:
    """The first whole head and what follows it: groups are host, pid, thread and the text, if any."""
    end = len(text) if end is None else end
    core = _HEAD_CORE.search(text, begin, end)
    return _HEAD.search(text, max(begin, core.start() - _LONGEST_NAME), end) if core else None


def beginnings(text: bytes, names: set[bytes]) -> list[int]:
    """Where heads begin; one that stands right behind another line's end has a host seen before, of `names`."""
    found = []
    for rest in _HEAD_REST.finditer(text):
        at = rest.start()
        backward = _NAME.match(text[max(0, at - _LONGEST_NAME) : at][::-1])
        run = backward[0][::-1] if backward else b""
        length = next((length for length in range(len(run), 0, -1) if run[-length:] in names), len(run))
        if length:
            found.append(at - length)
    return found


def may_tell(text: bytes) -> bool:
    """Whether whole lines hold one of NCCL's or a piece of one; cheap, and wrong only to the safe side."""
    if any(word in text for word in _WORDS):
        return True
    return bool(_FIRST.match(text)) or any(start.search(text) for start in _STARTS)


def cleaned(text: bytes) -> bytes:
    """Without colours, Ray's mark of folded lines and what follows it, and a carriage return."""
    if b"\x1b" in text:
        text = COLOUR.sub(b"", text)
    if b"[repeated " in text and (found := REPEATED.search(text)):
        text = text[: found.start()].rstrip()
    return text.rstrip(b"\r")
