"""PURE: one line's text after "NCCL INFO " or "NCCL WARN ", as NCCL 2.18-2.30 and aws-ofi-nccl 1.4-1.21 word it.

`parse` gives a fact, None for a line that tells nothing of transport, PART for the beginning of one that would, UNKNOWN
for one that tells of transport in words not known. Nothing raises.
"""

import re
from collections.abc import Callable

from workload.nccl import network_line
from workload.nccl.fact import (
    PART,
    UNKNOWN,
    EdgeLine,
    EndLine,
    InitLine,
    Parsed,
    TopologyLine,
)
from workload.nccl.line_part import begins_channel, begins_communicator, begins_text, begins_via
from workload.nccl.report import EdgeKind

_CHANNEL = re.compile(
    r"Channel (\d{1,9})(?:/\d+)? : (-?\d{1,9})\[(\w+)\] -> (-?\d{1,9})\[(\w+)\](?: \[(send|receive)\])? via (.{0,200})",
    re.DOTALL,
)
_NET = re.compile(r"NET/([^/]+)/(\d{1,9})(?:\((\d{1,9})\))?(/GDRDMA(?:\(\w+\))?)?(/Shared)?")
_NET_LOOSE = re.compile(r"NET/([^/]+)/(\d{1,9})(?:\((\d{1,9})\))?(.*)", re.DOTALL)
_LOCAL = re.compile(
    r"P2P/(?:CUMEM|IPC|direct pointer|MNNVL|indirect/\d+\[\w+\])(?:/read)?(?:/CE)?|SHM/(?:direct|CE)(?:/(?:direct|CE))?"
)
_INIT = re.compile(
    r"(?:\w+ )?comm (0x[0-9a-f]{1,16}) rank (\d{1,9}) nranks (\d{1,9})"
    r"((?: [A-Za-z]{1,20} (?:\(nil\)|-?\w{1,40})){1,16}) ?- Init (START|COMPLETE)(?!\w)"
)
_PAIR = re.compile(r"([A-Za-z]+) (\(nil\)|-?\w{1,40})")
_TOPOLOGY = re.compile(
    r"comm (0x[0-9a-f]{1,16}) rank \d{1,9} nRanks \d{1,9} nNodes (\d{1,9}) localRanks \d{1,9} localRank \d{1,9}"
    r"(?: ?M?N{0,2}V?L? ?\d{0,9})?(?!\w)"
)
_END = re.compile(r"comm (0x[0-9a-f]{1,16}) rank \d{1,9} nranks \d{1,9} [\w ]{0,200}- (?:Destroy|Abort) COMPLETE(?!\w)")
# Before the line of an initialisation's beginning, from NCCL 2.29 on.
_OF_RANK = re.compile(r"\[Rank \d{1,9}\] ")
_OF_RANK_PART = re.compile(r"\[Rank (?:\d{1,9}(?:\] ?)?)?")
_DISTINCT = re.compile(
    r"Channel \d+(?:/\d)? : -?\d+\[|Using n|NET/OFI (?:Sel|aws)|Initialized NET|Failed to initialize |External n|"
    r"(?:\[Rank \d+\] )?(?:ncclComm\w+ )?comm 0x[0-9a-f]+ rank \d+ n[rR]anks"
)


def _edge(body: str, *, strict: bool) -> Parsed:
    found = _CHANNEL.fullmatch(body)
    if not found:
        return PART if begins_channel(body) else UNKNOWN if " via " in body else None
    channel, from_rank, from_device, to_rank, to_device, direction, via = found.groups()
    network = device = proxy = None
    gdr = False
    if net := _NET.fullmatch(via) or (None if strict else _NET_LOOSE.fullmatch(via)):
        kind: EdgeKind = "NET"
        network, device, proxy = net[1], int(net[2]), int(net[3]) if net[3] else None
        gdr = "/GDRDMA" in (net[4] or "")
    elif _LOCAL.fullmatch(via):
        kind = "P2P" if via[0] == "P" else "SHM"
    elif begins_via(via):
        return PART
    elif strict:
        return None
    elif via.startswith("NET/"):
        return UNKNOWN
    else:
        kind = "P2P" if via.startswith("P2P/") else "SHM" if via.startswith("SHM/") else "other"
    return EdgeLine(
        channel=int(channel),
        from_rank=int(from_rank),
        from_device=from_device,
        to_rank=int(to_rank),
        to_device=to_device,
        direction="send" if direction == "send" else "receive" if direction else None,
        kind=kind,
        via=via,
        network=network,
        device=device,
        proxy_rank=proxy,
        gdr=gdr,
    )


def _communicator(body: str, *, strict: bool) -> Parsed:
    found = _INIT.match(body) or _TOPOLOGY.match(body) or _END.match(body)
    if found and (not strict or found.end() == len(body)):
        if found.re is _TOPOLOGY:
            return TopologyLine(found[1], int(found[2]))
        if found.re is _END:
            return EndLine(found[1])
        return InitLine(found[1], int(found[2]), int(found[3]), dict(_PAIR.findall(found[4])), found[5] == "COMPLETE")
    if begins_communicator(body):
        return PART
    return UNKNOWN if "- Init COMPLETE" in body or "- Init START" in body else None


def _communicator_of_rank(body: str, *, strict: bool) -> Parsed:
    found = _OF_RANK.match(body)
    if found is None:
        return PART if _OF_RANK_PART.fullmatch(body) else None
    return _communicator(body[found.end() :], strict=strict)


# By the first characters, so that the many lines that tell nothing of transport cost one look-up.
WIDTH = 6
_BY_START: dict[str, Callable[..., Parsed]] = {
    "Channe": _edge,
    "comm 0": _communicator,
    "ncclCo": _communicator,
    "[Rank ": _communicator_of_rank,
    "Using ": network_line.network,
    "NET/OF": network_line.ofi,
    "NET/Pl": network_line.plugin,
    "Initia": network_line.named,
    "Succes": network_line.named,
    "Failed": network_line.failed,
    "Extern": network_line.failed,
    "NET/So": network_line.nics,
    "NET/IB": network_line.nics,
    "NCCL v": network_line.version,
}
STARTS = frozenset(start.encode() for start in _BY_START)


def parse(body: str, *, strict: bool = False) -> Parsed:
    """`strict` accepts only what a piece put behind a piece may become, not text that merely follows."""
    rule = _BY_START.get(body[:WIDTH])
    if rule is not None:
        return rule(body, strict=strict)
    return PART if len(body) < WIDTH and begins_text(body, *_BY_START) else None


def is_distinct(part: str) -> bool:
    """Whether the beginning of a line is that of no line but one that tells of transport."""
    return bool(_DISTINCT.match(part))
