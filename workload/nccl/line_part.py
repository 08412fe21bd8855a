"""PURE: whether a text is the beginning of a line that tells of transport, cut before its end.

A process's line reaches a job's log in pieces where it was written in pieces; what a piece may become decides whether
the next piece belongs to it.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import product

from workload.nccl.names import KNOWN_NETWORKS, KNOWN_PROVIDERS

_DIGITS, _SIGNED, _HEX, _WORD, _UNSPACED = r"\d", r"[-\d]", r"[0-9a-f]", r"\w", r"\S"
_Tokens = list[tuple[str]]
_CLASSES = {_DIGITS, _SIGNED, _HEX, _WORD, _UNSPACED}
_LOCALS = (
    *(f"P2P/{kind}{read}" for kind in ("CUMEM", "IPC", "direct pointer", "MNNVL") for read in ("/read/CE", "/CE")),
    *(f"SHM/{one}/{other}" for one in ("direct", "CE") for other in ("direct", "CE")),
)
_KEYS = ("cudaDev", "nvmlDev", "busId", "commId", "parent", "splitCount", "childCount", "color", "key")
_ENDS = ("- Init START", "- Init COMPLETE", "- Destroy COMPLETE", "- Abort COMPLETE")
_FRONT = re.compile(r"(?:\w+ )?comm 0x[0-9a-f]+ rank \d+ nranks \d+")
_PAIR = re.compile(rf" (?:{'|'.join(_KEYS)}) (?:\(nil\)|-?\w+)(?= |-|$)")
_KEY_PART = re.compile(rf"(?:{'|'.join(_KEYS)}) (?:-|\((?:n|ni|nil)?)?")
_INDIRECT_PART = re.compile(r"P2P/indirect/(?:\d+(?:\[(?:\w+(?:\](?:/r?e?a?d?)?)?)?)?)?")


def begins_text(text: str, *wholes: str) -> bool:
    """Whether `text` is a proper beginning of one of the `wholes`."""
    return any(len(text) < len(whole) and whole.startswith(text) for whole in wholes)


def begins_channel(text: str) -> bool:
    # "Channel 00/02 : 0 1" is a ring: of an edge, what stands behind the slash has one digit.
    if re.match(r"Channel \d+/\d\d", text):
        return False
    return any(pattern.fullmatch(text) for pattern in _channel_parts())


def begins_via(via: str) -> bool:
    if via == "" or begins_text(via, "NET/", "P2P/indirect/", *_LOCALS) or _INDIRECT_PART.fullmatch(via):
        return True
    return via.startswith("NET/") and any(pattern.fullmatch(via) for pattern in _net_parts())


def begins_provider(text: str) -> bool:
    if not text.startswith("NET/OFI Selected") and not begins_text(text, "NET/OFI Selected"):
        return False
    return any(pattern.fullmatch(text) for pattern in _provider_parts())


def begins_communicator(text: str) -> bool:
    found = _FRONT.match(text)
    if not found:
        return any(pattern.fullmatch(text) for pattern in _communicator_parts())
    at = found.end()
    while pair := _PAIR.match(text, at):
        at = pair.end()
    # A START line of a child has no space before its dash.
    rest = text[at:].removeprefix(" ")
    return begins_text(rest, *(f"{key} " for key in _KEYS), *_ENDS) or bool(_KEY_PART.fullmatch(rest))


@cache
def _channel_parts() -> tuple[re.Pattern[str], ...]:
    front = [("Channel ",), (_DIGITS,)]
    subs: tuple[_Tokens, ...] = ([], [("/",), (_DIGITS,)])
    middle = [(" : ",), (_SIGNED,), ("[",), (_WORD,), ("] -> ",), (_SIGNED,), ("[",), (_WORD,), ("]",)]
    directions: tuple[_Tokens, ...] = ([], [(" [send]",)], [(" [receive]",)])
    return tuple(
        _beginning([*front, *sub, *middle, *direction, (" via ",)]) for sub, direction in product(subs, directions)
    )


@cache
def _net_parts() -> tuple[re.Pattern[str], ...]:
    proxies: tuple[_Tokens, ...] = ([], [("(",), (_DIGITS,), (")",)])
    gdrs: tuple[_Tokens, ...] = ([], [("/GDRDMA",)], [("/GDRDMA(",), (_WORD,), (")",)])
    shared: tuple[_Tokens, ...] = ([], [("/Shared",)])
    return tuple(
        _beginning([(f"NET/{name}/",), (_DIGITS,), *proxy, *gdr, *end])
        for name, proxy, gdr, end in product(sorted(KNOWN_NETWORKS), proxies, gdrs, shared)
    )


@cache
def _provider_parts() -> tuple[re.Pattern[str], ...]:
    fabrics: tuple[_Tokens, ...] = ([], [(", fabric is ",), (_UNSPACED,)])
    return tuple(
        _beginning([(f"NET/OFI Selected {letter}rovider is {name}",), *fabric, (" (found ",), (_DIGITS,), (" nics)",)])
        for letter, name, fabric in product("pP", sorted(KNOWN_PROVIDERS), fabrics)
    )


@cache
def _communicator_parts() -> tuple[re.Pattern[str], ...]:
    front = [("comm 0x",), (_HEX,), (" rank ",), (_DIGITS,)]
    topology = [(" nRanks ",), (_DIGITS,), (" nNodes ",), (_DIGITS,), (" localRanks ",), (_DIGITS,), (" localRank ",)]
    named = [("ncclComm",), (_WORD,), (" ",)]
    return (
        _beginning([*front, *topology, (_DIGITS,)]),
        _beginning([*front, (" nranks ",), (_DIGITS,)]),
        _beginning([*named, *front, (" nranks ",), (_DIGITS,)]),
    )


def _beginning(tokens: _Tokens) -> re.Pattern[str]:
    """A pattern of all beginnings of a sequence; a token is a literal, or a class of characters, one or more."""
    return re.compile("".join(opened := list(_opened(tokens))) + ")?" * len(opened))


def _opened(tokens: _Tokens) -> Iterator[str]:
    for (token,) in tokens:
        if token in _CLASSES:
            yield f"(?:{token}+"
        else:
            yield from (f"(?:{re.escape(letter)}" for letter in token)
