"""PURE: one line's text after "NCCL INFO " or "NCCL WARN ", as NCCL 2.18-2.30 and aws-ofi-nccl 1.4-1.21 word it.

`parse` gives a fact, None for a line that tells nothing of transport, PART for the beginning of one that would, UNKNOWN
for one that tells of transport in words not known. Nothing raises.
"""

import re
from collections.abc import Callable

from workload.nccl_fact import (
    PART,
    UNKNOWN,
    EdgeLine,
    EndLine,
    FailureLine,
    InitLine,
    NetworkLine,
    NicsLine,
    Parsed,
    PluginLine,
    ProviderLine,
    TopologyLine,
    VersionLine,
)
from workload.nccl_line_part import begins_channel, begins_communicator, begins_provider, begins_text, begins_via
from workload.nccl_names import KNOWN_NETWORKS, KNOWN_PROVIDERS
from workload.transport_report import EdgeKind

_CHANNEL = re.compile(
    r"Channel (\d{1,9})(?:/\d+)? : (-?\d{1,9})\[(\w+)\] -> (-?\d{1,9})\[(\w+)\](?: \[(send|receive)\])? via (.{0,200})",
    re.DOTALL,
)
_NET = re.compile(r"NET/([^/]+)/(\d{1,9})(?:\((\d{1,9})\))?(/GDRDMA(?:\(\w+\))?)?(/Shared)?")
_NET_LOOSE = re.compile(r"NET/([^/]+)/(\d{1,9})(?:\((\d{1,9})\))?(.*)", re.DOTALL)
_LOCAL = re.compile(
    r"P2P/(?:CUMEM|IPC|direct pointer|MNNVL|indirect/\d+\[\w+\])(?:/read)?(?:/CE)?|SHM/(?:direct|CE)/(?:direct|CE)"
)
_INIT = re.compile(
    r"(?:\w+ )?comm (0x[0-9a-f]+) rank (\d{1,9}) nranks (\d{1,9}) ([\w ()-]{0,300}?) ?- Init (START|COMPLETE)(?!\w)"
)
_PAIR = re.compile(r"([A-Za-z]+) (\(nil\)|-?\w{1,40})")
_TOPOLOGY = re.compile(r"comm (0x[0-9a-f]+) rank \d+ nRanks \d+ nNodes (\d{1,9}) localRanks \d+ localRank \d+(?!\d)")
_END = re.compile(r"comm (0x[0-9a-f]+) rank \d+ nranks \d+ [\w ]{0,200}- (?:Destroy|Abort) COMPLETE(?!\w)")
_PROVIDER = re.compile(
    r"NET/OFI Selected [Pp]rovider is ([^\s,]+)(?:, fabric is ([^\s]+))?(?: \(found (\d{1,9}) nics?\))?"
)
_OFI_VERSION = re.compile(r"NET/OFI (?:Initializing|Using) aws-ofi-nccl (\S+)")
_OFI_NUMBER = re.compile(r"\d+(?:\.\d+)+(?:-?aws)?")
_MISSING = re.compile(
    r"NET/Plugin ?: (?:Could not find|No plugin found|dlerror=|Plugin load \(|Using internal net)", re.DOTALL
)
_LOADED = re.compile(r"NET/Plugin ?: Loaded net plugin (.{1,80}) \(v\d+\)")
_LOADED_PART = re.compile(r"NET/Plugin ?: Loaded net plugin .{0,80}")
_NIC = re.compile(r"\[\d+\]([\w.-]+):")
_NICS = re.compile(r"NET/(?:Socket|IB) ?: Using(?: ?\[\d+\][\w.-]+:[\w.:/]+(?:<\d*>?)?)+")
_NICS_PART = re.compile(r"NET/(?:Socket|IB)? ?:? ?(?:U|Us|Usi|Usin|Using)? ?\[?\d*\]?[\w.-]*")
_NAMED = re.compile(r"(?:Initialized|Assigned) NET plugin (.{1,80}?)(?: to comm)?")
_ASSIGNED_PART = re.compile(r"Assigned NET plugin \w+(?: \w+)? (?:t|to|to c|to co|to com)?")
_EXTERNAL = re.compile(r"Successfully loaded external network plugin (.{1,400})")
_FAILED = re.compile(r"Failed to initialize NET plugin (.{1,80})")
_UNSUPPORTED = re.compile(r"External network plugin (.{1,400}?) is unsupported")
_NCCL_NUMBER = re.compile(r"\d+(?:\.\d+)+\+cuda\d+\.\d+")
_NCCL_NUMBER_PART = re.compile(r"\d+(?:\.\d*)*(?:\+\w{0,6}\.?)?")
OFI_FAILED = "NET/OFI aws-ofi-nccl initialization failed"
ANY_FAILED = "Failed to initialize any NET plugin"
_DISTINCT = re.compile(
    r"Channel \d+(?:/\d)? : -?\d+\[|Using n|NET/OFI (?:Sel|aws)|(?:ncclComm\w+ )?comm 0x[0-9a-f]+ rank \d+ n[rR]anks|"
    r"(?:Initialized|Assigned) NET|Failed to initialize "
)
_PROVIDER_STARTS = ("NET/OFI Selected provider is ", "NET/OFI Selected Provider is ")
_OFI_STARTS = ("NET/OFI Initializing aws-ofi-nccl 1", "NET/OFI Using aws-ofi-nccl 1")
_PLUGIN_STARTS = tuple(
    f"NET/Plugin{space}: {word}"
    for space in ("", " ")
    for word in (
        "Could not find",
        "No plugin found",
        "dlerror=",
        "Plugin load (",
        "Using internal net",
        "Loaded net plugin ",
    )
)
_NAMED_STARTS = ("Initialized NET plugin ", "Assigned NET plugin ", "Successfully loaded external network plugin ")
_FAILED_STARTS = ("Failed to initialize NET plugin ", "External network plugin ")


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
    if found := _INIT.match(body):
        if strict and found.end() != len(body):
            return None
        pairs = dict(_PAIR.findall(found[4]))
        return InitLine(found[1], int(found[2]), int(found[3]), pairs, found[5] == "COMPLETE")
    if found := _TOPOLOGY.match(body):
        return TopologyLine(found[1], int(found[2]))
    if found := _END.match(body):
        return EndLine(found[1])
    if begins_communicator(body):
        return PART
    return UNKNOWN if "- Init COMPLETE" in body or "- Init START" in body else None


def _network(body: str, *, strict: bool) -> Parsed:
    if not body.startswith("Using network "):
        return PART if begins_text(body, "Using network ") else None
    name = body[len("Using network ") :].strip()
    if name in KNOWN_NETWORKS:
        return NetworkLine(name)
    if begins_text(name, *KNOWN_NETWORKS):
        return PART
    return None if strict else NetworkLine(name[:80])


def _ofi(body: str, *, strict: bool) -> Parsed:
    if body.startswith(OFI_FAILED):
        return FailureLine("aws-ofi-nccl", OFI_FAILED)
    if found := _PROVIDER.fullmatch(body):
        name, fabric, nics = found.groups()
        if fabric is None and nics is None and begins_text(name, *KNOWN_PROVIDERS) and name not in KNOWN_PROVIDERS:
            return PART
        if strict and name not in KNOWN_PROVIDERS:
            return None
        return ProviderLine(name, fabric, int(nics) if nics else None)
    if found := _OFI_VERSION.fullmatch(body):
        return None if strict and not _OFI_NUMBER.fullmatch(found[1]) else VersionLine("ofi", found[1])
    if begins_provider(body) or begins_text(body, OFI_FAILED, *_OFI_STARTS):
        return PART
    return UNKNOWN if body.startswith(_PROVIDER_STARTS) else None


def _plugin(body: str, *, strict: bool) -> Parsed:
    if found := _LOADED.fullmatch(body):
        return PluginLine(found[1])
    if found := _MISSING.match(body):
        return None if strict and found.end() != len(body) else PluginLine(None)
    return PART if begins_text(body, *_PLUGIN_STARTS) or _LOADED_PART.fullmatch(body) else None


def _named(body: str, *, strict: bool) -> Parsed:
    if found := _NAMED.fullmatch(body):
        name = found[1]
        if begins_text(name, *KNOWN_NETWORKS) and name not in KNOWN_NETWORKS:
            return PART
        return None if strict and name not in KNOWN_NETWORKS else PluginLine(name)
    if found := _EXTERNAL.fullmatch(body):
        return PluginLine(found[1]) if found[1].endswith(".so") or not strict else PART
    return PART if begins_text(body, *_NAMED_STARTS) or _ASSIGNED_PART.fullmatch(body) else None


def _failed(body: str, *, strict: bool) -> Parsed:
    if body.startswith(ANY_FAILED):
        return None if strict and body != ANY_FAILED else FailureLine("any", ANY_FAILED)
    if begins_text(body, ANY_FAILED, *_FAILED_STARTS):
        return PART
    if found := _UNSUPPORTED.match(body):
        return FailureLine(found[1], body[:200])
    found = _FAILED.fullmatch(body)
    if not found:
        return None
    name = found[1]
    if begins_text(name, *KNOWN_NETWORKS) and name not in KNOWN_NETWORKS:
        return PART
    return None if strict and name not in KNOWN_NETWORKS else FailureLine(name, body)


def _nics(body: str, *, strict: bool) -> Parsed:
    if not _NICS.fullmatch(body) if strict else ": Using [" not in body:
        return PART if _NICS_PART.fullmatch(body) else None
    names = tuple(_NIC.findall(body[:4000]))
    return NicsLine(names) if names else None


def _version(body: str, *, strict: bool) -> Parsed:
    version = body[len("NCCL version ") :]
    if not body.startswith("NCCL version ") or not version:
        return PART if begins_text(body, "NCCL version 2") else None
    if strict and not _NCCL_NUMBER.fullmatch(version):
        return PART if _NCCL_NUMBER_PART.fullmatch(version) else None
    return VersionLine("nccl", version.split(" ")[0])


# By the first characters, so that the many lines that tell nothing of transport cost one look-up.
WIDTH = 6
_BY_START: dict[str, Callable[..., Parsed]] = {
    "Channe": _edge,
    "comm 0": _communicator,
    "ncclCo": _communicator,
    "Using ": _network,
    "NET/OF": _ofi,
    "NET/Pl": _plugin,
    "Initia": _named,
    "Assign": _named,
    "Succes": _named,
    "Failed": _failed,
    "Extern": _failed,
    "NET/So": _nics,
    "NET/IB": _nics,
    "NCCL v": _version,
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
