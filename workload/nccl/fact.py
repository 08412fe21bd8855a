"""PURE: what one of NCCL's lines may say of transport."""

from typing import Literal, NamedTuple

from workload.nccl.report import EdgeKind


class Odd:
    """PART: the beginning of a line that would tell. UNKNOWN: a line that tells, in words not known."""


PART, UNKNOWN = Odd(), Odd()


class EdgeLine(NamedTuple):
    channel: int
    from_rank: int
    from_device: str
    to_rank: int
    to_device: str
    direction: Literal["send", "receive"] | None
    kind: EdgeKind
    via: str
    network: str | None
    device: int | None
    proxy_rank: int | None
    gdr: bool


class InitLine(NamedTuple):
    """`pairs` holds cudaDev, nvmlDev, busId, commId, parent, splitCount or childCount, color, key: those named."""

    pointer: str
    rank: int
    ranks: int
    pairs: dict[str, str]
    complete: bool


class TopologyLine(NamedTuple):
    pointer: str
    nodes: int


class EndLine(NamedTuple):
    pointer: str


class NetworkLine(NamedTuple):
    name: str


class ProviderLine(NamedTuple):
    name: str
    fabric: str | None
    nics: int | None


class PluginLine(NamedTuple):
    """A plugin named as loaded, initialised or assigned; None where the line says that it was not found."""

    name: str | None


class FailureLine(NamedTuple):
    plugin: str
    text: str


class NicsLine(NamedTuple):
    names: tuple[str, ...]


class VersionLine(NamedTuple):
    of: Literal["nccl", "ofi"]
    version: str


Fact = (
    EdgeLine
    | InitLine
    | TopologyLine
    | EndLine
    | NetworkLine
    | ProviderLine
    | PluginLine
    | FailureLine
    | NicsLine
    | VersionLine
)

Parsed = Fact | Odd | None
