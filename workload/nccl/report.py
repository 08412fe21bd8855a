"""PURE: what NCCL's own log lines say, as facts with their places; nothing here judges."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

EdgeKind = Literal["NET", "P2P", "SHM", "COLLNET", "other"]


class Place(NamedTuple):
    """A line of a file, counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class Provider:
    """The plugin's line about libfabric; `fabric` and `nics` are None in the wordings that do not name them."""

    name: str
    fabric: str | None
    nics: int | None
    place: Place


@dataclass(frozen=True, kw_only=True)
class Network:
    """What NCCL chose for a communicator ("Using network X")."""

    name: str
    place: Place


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A plugin that did not come up."""

    plugin: str
    text: str
    place: Place


@dataclass(frozen=True, kw_only=True)
class Warned:
    """A line of level WARN."""

    host: str
    pid: int
    text: str
    place: Place


@dataclass(frozen=True, kw_only=True)
class NcclProcess:
    """One process; `first` and `last` are its first NCCL line and its last one that tells of its transport.

    `stray_networks` are those of `networks` that were chosen for a communicator whose initialisation was not seen.
    """

    host: str
    pid: int
    nccl: str | None
    ofi: str | None
    plugins: tuple[str, ...]
    plugin_missing: Place | None
    providers: tuple[Provider, ...]
    networks: tuple[Network, ...]
    stray_networks: tuple[Network, ...]
    nics: tuple[str, ...]
    failures: tuple[Failure, ...]
    first: Place
    last: Place


@dataclass(frozen=True, kw_only=True)
class Member:
    """A rank of a communicator; `started` and `completed` are its Init lines, None where they were not seen."""

    rank: int
    host: str
    pid: int
    device: int | None
    network: Network | None
    started: Place | None
    completed: Place | None


@dataclass(frozen=True, kw_only=True)
class Communicator:
    """`nodes` is how many hosts NCCL itself counted (its nNodes), one entry for each different answer."""

    id: str
    parent: str | None
    ranks: int
    members: tuple[Member, ...]
    nodes: tuple[int, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(sorted({member.host for member in self.members}))

    @property
    def complete(self) -> bool:
        """Each rank said once that its initialisation is complete."""
        done = sorted(member.rank for member in self.members if member.completed)
        return len(self.members) == self.ranks and done == list(range(self.ranks))

    @property
    def devices(self) -> dict[str, set[int]]:
        """By host, those of its ranks."""
        known: dict[str, set[int]] = {member.host: set() for member in self.members}
        for member in self.members:
            known[member.host] |= {member.device} if member.device is not None else set()
        return known

    @property
    def one_host(self) -> bool:
        """Known to lie within one host: no rank can be elsewhere."""
        if len(self.hosts) != 1:
            return False
        return self.nodes == (1,) or (self.complete and not self.nodes)


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A channel between two ranks; `communicator` and hosts are None where no communicator seen has such ranks.

    `count` is how many lines said the same, `place` the first of them. P2P and SHM lines have no direction.
    """

    communicator: str | None
    channel: int
    from_rank: int
    from_host: str | None
    to_rank: int
    to_host: str | None
    direction: Literal["send", "receive"] | None
    kind: EdgeKind
    via: str
    network: str | None
    device: int | None
    proxy_rank: int | None
    gdr: bool
    host: str
    pid: int
    place: Place
    count: int

    @property
    def between_hosts(self) -> bool | None:
        if self.from_host is None or self.to_host is None:
            return None
        return self.from_host != self.to_host


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """Processes that share communicators, and those without any that ran among them."""

    processes: tuple[NcclProcess, ...]
    communicators: tuple[Communicator, ...]
    edges: tuple[Edge, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(sorted({process.host for process in self.processes}))

    def edges_of(self, communicator: str) -> Iterator[Edge]:
        return (edge for edge in self.edges if edge.communicator == communicator)


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Lines, by why they are not in the report; `at` is the first of each reason that has any.

    deduplicated: hidden by Ray's "[repeated Nx across cluster]", the N of all marks; fragments: pieces of NCCL lines
    whose rest was not found; truncated: inputs that end, or were cut, within an NCCL line; too_long: lines beyond what
    is kept of one; unknown: NCCL lines of a shape that tells of transport but in words not known; beyond: facts past
    the limit of what is held.
    """

    deduplicated: int = 0
    fragments: int = 0
    truncated: int = 0
    too_long: int = 0
    unknown: int = 0
    beyond: int = 0
    at: tuple[tuple[str, Place], ...] = ()

    @property
    def anything(self) -> bool:
        return bool(
            self.deduplicated or self.fragments or self.truncated or self.too_long or self.unknown or self.beyond
        )


@dataclass(frozen=True, kw_only=True)
class TransportReport:
    """`attempts` in the order of their beginning; `counting` indexes those that none is known to have followed.

    `side_by_side` is whether those ran at the same time; otherwise their order cannot be told (separate files).
    """

    files: tuple[str, ...]
    lines: int
    nccl_lines: int
    attempts: tuple[Attempt, ...]
    counting: tuple[int, ...]
    side_by_side: bool
    warnings: tuple[Warned, ...]
    warned: int
    lost: Lost

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; a place is "file:line"."""
        plain: dict[str, Any] = _plain(dataclasses.asdict(self, dict_factory=dict))
        for attempt, said in zip(self.attempts, plain["attempts"], strict=True):
            for communicator, one in zip(attempt.communicators, said["communicators"], strict=True):
                one |= {"hosts": list(communicator.hosts), "complete": communicator.complete}
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Place):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
