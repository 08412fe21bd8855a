"""PURE: lines about the network: plugin, libfabric's provider, what was chosen, interfaces, versions.

Each takes a line's text and gives a fact, PART, UNKNOWN or None, as `workload.nccl.line.parse` does.
"""

import re

from workload.nccl.fact import (
    PART,
    UNKNOWN,
    FailureLine,
    NetworkLine,
    NicsLine,
    Parsed,
    PluginLine,
    ProviderLine,
    VersionLine,
)
from workload.nccl.line_part import begins_provider, begins_text
from workload.nccl.names import KNOWN_NETWORKS, KNOWN_PROVIDERS

_PROVIDER = re.compile(
    r"NET/OFI Selected [Pp]rovider is ([^\s,]+)(?:, fabric is ([^\s]+))?(?: \(found (\d{1,9}) nics?\))?"
)
_OFI_VERSION = re.compile(r"NET/OFI (?:Initializing|Using) aws-ofi-nccl (\S+)")
_OFI_NUMBER = re.compile(r"\d+(?:\.\d+)+\.?(?:-?aws)?")
_OFI_NUMBER_PART = re.compile(r"\d+(?:\.\d+)*\.?-?(?:a|aw)?")
_MISSING = re.compile(
    r"NET/Plugin ?: (?:Could not find|No plugin found|dlerror=|Plugin load \(|Using internal net)", re.DOTALL
)
_LOADED = re.compile(r"NET/Plugin ?: Loaded net plugin (.{1,80}) \(v\d+\)")
_LOADED_PART = re.compile(r"NET/Plugin ?: Loaded net plugin [\w -]{0,60}(?:\((?:v\d*)?)?")
_NIC = re.compile(r"\[\d+\]([\w.-]+):")
_NICS = re.compile(r"NET/(?:Socket|IB) ?: Using(?: ?\[\d+\][\w.-]+:[\w.:/]+(?:<\d*>?)?)+")
_NICS_PART = re.compile(r"NET/(?:Socket|IB)? ?:? ?(?:U|Us|Usi|Usin|Using)? ?\[?\d*\]?[\w.-]*:?")
_NAMED = re.compile(r"Initialized NET plugin (.{0,80})")
_EXTERNAL = re.compile(r"Successfully loaded external network plugin (.{0,400})")
_LIBRARY = re.compile(r"(?:(?!\.so)\S)+\.so")
_FAILED = re.compile(r"Failed to initialize NET plugin (.{0,80})")
_UNSUPPORTED = re.compile(r"External network plugin (.{1,400}?) is unsupported")
_UNSUPPORTED_PART = re.compile(r"External network plugin \S{1,400}(?: (?:i(?:s(?: u?n?s?u?p?p?o?r?t?e?)?)?)?)?")
_NCCL_NUMBER = re.compile(r"\d+(?:\.\d+)+\+cuda\d+\.\d+")
_NCCL_NUMBER_PART = re.compile(r"\d+(?:\.\d*)*(?:\+\w{0,6}\.?)?")
OFI_FAILED = "NET/OFI aws-ofi-nccl initialization failed"
ANY_FAILED = "Failed to initialize any NET plugin"
_PROVIDER_STARTS = ("NET/OFI Selected provider", "NET/OFI Selected Provider")
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
_NAMED_STARTS = ("Initialized NET plugin ", "Successfully loaded external network plugin ")
_FAILED_STARTS = ("Failed to initialize NET plugin ", "External network plugin ")


def network(body: str, *, strict: bool) -> Parsed:
    if not body.startswith("Using network "):
        return PART if begins_text(body, "Using network ") else None
    name = body[len("Using network ") :].strip()
    if name in KNOWN_NETWORKS:
        return NetworkLine(name)
    if begins_text(name, *KNOWN_NETWORKS):
        return PART
    return None if strict else NetworkLine(name[:80])


def ofi(body: str, *, strict: bool) -> Parsed:
    if body == OFI_FAILED or (not strict and body.startswith(OFI_FAILED)):
        return FailureLine("aws-ofi-nccl", OFI_FAILED)
    if found := _PROVIDER.fullmatch(body):
        name, fabric, nics = found.groups()
        if fabric is None and nics is None and begins_text(name, *KNOWN_PROVIDERS) and name not in KNOWN_PROVIDERS:
            return PART
        if strict and name not in KNOWN_PROVIDERS:
            return None
        return ProviderLine(name, fabric, int(nics) if nics else None)
    if found := _OFI_VERSION.fullmatch(body):
        if strict and not _OFI_NUMBER.fullmatch(found[1]):
            return PART if _OFI_NUMBER_PART.fullmatch(found[1]) else None
        return VersionLine("ofi", found[1])
    if begins_provider(body) or begins_text(body, OFI_FAILED, *_OFI_STARTS):
        return PART
    return UNKNOWN if body.startswith(_PROVIDER_STARTS) else None


def plugin(body: str, *, strict: bool) -> Parsed:
    if found := _LOADED.fullmatch(body):
        return PluginLine(found[1])
    if _MISSING.match(body):
        return PluginLine(None)
    return PART if begins_text(body, *_PLUGIN_STARTS) or _LOADED_PART.fullmatch(body) else None


def named(body: str, *, strict: bool) -> Parsed:
    if found := _NAMED.fullmatch(body):
        name = found[1]
        if begins_text(name, *KNOWN_NETWORKS) and name not in KNOWN_NETWORKS:
            return PART
        return None if strict and name not in KNOWN_NETWORKS else PluginLine(name)
    if found := _EXTERNAL.fullmatch(body):
        if ".so" not in found[1] and " " not in found[1]:
            return PART
        return None if strict and not _LIBRARY.fullmatch(found[1]) else PluginLine(found[1])
    return PART if begins_text(body, *_NAMED_STARTS) else None


def failed(body: str, *, strict: bool) -> Parsed:
    if body == ANY_FAILED or (not strict and body.startswith(ANY_FAILED)):
        return FailureLine("any", ANY_FAILED)
    if begins_text(body, ANY_FAILED, *_FAILED_STARTS) or body in _FAILED_STARTS:
        return PART
    if found := _UNSUPPORTED.fullmatch(body) if strict else _UNSUPPORTED.match(body):
        return FailureLine(found[1], body[:200])
    if _UNSUPPORTED_PART.fullmatch(body):
        return PART
    found = _FAILED.fullmatch(body)
    if not found:
        return None
    name = found[1]
    if begins_text(name, *KNOWN_NETWORKS) and name not in KNOWN_NETWORKS:
        return PART
    return None if strict and name not in KNOWN_NETWORKS else FailureLine(name, body)


def nics(body: str, *, strict: bool) -> Parsed:
    if not _NICS.fullmatch(body) if strict else ": Using [" not in body:
        return PART if _NICS_PART.fullmatch(body) else None
    names = tuple(_NIC.findall(body[:4000]))
    return NicsLine(names) if names else None


def version(body: str, *, strict: bool) -> Parsed:
    version = body[len("NCCL version ") :]
    if not body.startswith("NCCL version ") or not version:
        return PART if begins_text(body, "NCCL version 2") else None
    if strict and not _NCCL_NUMBER.fullmatch(version):
        return PART if _NCCL_NUMBER_PART.fullmatch(version) else None
    return VersionLine("nccl", version.split(" ")[0])
