"""PURE: what one process said, collected line by line."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from workload.nccl.fact import (
    EdgeLine,
    EndLine,
    Fact,
    FailureLine,
    InitLine,
    NetworkLine,
    NicsLine,
    PluginLine,
    ProviderLine,
    TopologyLine,
    VersionLine,
)
from workload.nccl.report import Failure, NcclProcess, Network, Place, Provider

MOST_LIVE = 500


@dataclass(eq=False, slots=True)
class MemberLog:
    """This process as a rank of one communicator."""

    process: "ProcessLog"
    order: int
    line: InitLine
    parent: "MemberLog | None"
    network: Network | None = None
    started: Place | None = None
    completed: Place | None = None
    nodes: set[int] = field(default_factory=set)

    @property
    def devices(self) -> set[str]:
        """What the brackets of a channel line may hold: the nvml device, in old wordings the bus id."""
        return {self.line.pairs[key] for key in ("nvmlDev", "busId") if key in self.line.pairs}

    def at(self, rank: int, device: str) -> bool:
        return rank == self.line.rank and (not self.devices or device in self.devices)


@dataclass(eq=False, slots=True)
class EdgeLog:
    """`members` are those of this process that the channel may belong to, the oldest first."""

    line: EdgeLine
    place: Place
    members: tuple[MemberLog, ...]
    count: int = 1


class ProcessLog:
    """Lines of one (host, pid) in their order; `spans` is where in each file its telling lines are, first and last."""

    def __init__(self, host: str, pid: int, place: Place) -> None:
        self.host, self.pid = host, pid
        self.first, self.last = place, place
        self.spans: dict[str, tuple[int, int]] = {place.file: (place.line, place.line)}
        self.members: dict[tuple[object, ...], MemberLog] = {}
        self.edges: dict[tuple[tuple[MemberLog, ...], str], EdgeLog] = {}
        self._nccl: str | None = None
        self._ofi: str | None = None
        self._plugins: dict[str, None] = {}
        self._missing: Place | None = None
        # Each said thing once, with its first place: a communicator after the other says the same.
        self._providers: dict[tuple[object, ...], Provider] = {}
        self._networks: dict[str, Network] = {}
        self._stray: dict[str, Network] = {}
        self._nics: dict[str, None] = {}
        self._failures: dict[str, Failure] = {}
        # A communicator is known here by its address, which is used again once it is gone.
        self._live: dict[str, MemberLog] = {}
        self._starting: dict[int, MemberLog] = {}
        self._chosen: dict[int, Network] = {}
        # By thread, channel lines that came before any communicator they may be of: NCCL 2.18.1 says that one is there
        # only when it is complete.
        self._early: dict[int, list[str]] = {}
        # Channel lines since a communicator came or went.
        self._recent: dict[str, EdgeLog] = {}
        # By the rank and device that a line may be of, and its larger rank; as long.
        self._fitting: dict[tuple[tuple[tuple[int, str], ...], int], tuple[MemberLog, ...]] = {}

    def again(self, body: str) -> bool:
        """Counts a channel line that was said before of the same communicators."""
        known = self._recent.get(body)
        if known is None:
            return False
        known.count += 1
        return True

    def take(self, fact: Fact, body: str, *, thread: int, place: Place) -> None:
        self.last = place
        # A communicator's end may be told long after: by then a retry can be on its way.
        if not isinstance(fact, EndLine):
            first, _ = self.spans.get(place.file, (place.line, place.line))
            self.spans[place.file] = (first, place.line)
        if isinstance(fact, EdgeLine):
            members = self._members_of(fact, thread)
            known = self.edges.get((members, body))
            if known is None:
                known = self.edges[members, body] = EdgeLog(fact, place, members)
                if not members:
                    self._early.setdefault(thread, []).append(body)
            else:
                known.count += 1
            self._recent[body] = known
        elif isinstance(fact, InitLine):
            self._initialised(fact, thread, place)
        elif isinstance(fact, NetworkLine):
            if thread in self._chosen:
                self._stray.setdefault(self._chosen[thread].name, self._chosen[thread])
            self._chosen[thread] = Network(name=fact.name, place=place)
            self._networks.setdefault(fact.name, self._chosen[thread])
        else:
            _TAKERS[type(fact)](self, fact, place)

    def _members_of(self, line: EdgeLine, thread: int) -> tuple[MemberLog, ...]:
        """Up to NCCL 2.21 channels are made within a communicator's initialisation, later at its first use."""
        own = _own_ends(line)
        ranks = max(line.from_rank, line.to_rank)
        fits = self._fitting.get((own, ranks))
        if fits is None:
            found = [m for m in self._live.values() if m.line.ranks > ranks and any(m.at(*end) for end in own)]
            fits = self._fitting[own, ranks] = tuple(sorted(found, key=lambda member: member.order))
        starting = self._starting.get(thread)
        return (starting,) if starting in fits else fits

    def _initialised(self, line: InitLine, thread: int, place: Place) -> None:
        pairs = line.pairs
        named = tuple(pairs.get(key) for key in ("commId", "parent", "splitCount", "childCount", "color"))
        key = (line.pointer, line.rank, line.ranks, named)
        member = self.members.get(key)
        if member is None:
            parent = self._live.get(pairs.get("parent", ""))
            member = self.members[key] = MemberLog(self, len(self.members), line, parent)
        self._live[line.pointer] = member
        if line.complete and not member.started:
            self._claim(member, self._early.get(thread, ()))
        self._early.pop(thread, None)
        if (chosen := self._chosen.pop(thread, None)) is not None:
            member.network = member.network or chosen
            if chosen.name != member.network.name:
                self._stray.setdefault(chosen.name, chosen)
        if line.complete:
            member.completed = member.completed or place
            self._starting.pop(thread, None)
        else:
            member.started = member.started or place
            self._starting[thread] = member
        self._changed()

    def _claim(self, member: MemberLog, bodies: Iterable[str]) -> None:
        for body in bodies:
            log = self.edges[(), body]
            if member.line.ranks > max(log.line.from_rank, log.line.to_rank) and any(
                member.at(*end) for end in _own_ends(log.line)
            ):
                log.members = (member,)
                self.edges[log.members, body] = self.edges.pop(((), body))

    def topology(self, fact: TopologyLine, _place: Place) -> None:
        if member := self._live.get(fact.pointer):
            member.nodes.add(fact.nodes)

    def ended(self, fact: EndLine, _place: Place) -> None:
        self._live.pop(fact.pointer, None)
        self._changed()

    def _changed(self) -> None:
        self._recent.clear()
        self._fitting.clear()

    def provider(self, fact: ProviderLine, place: Place) -> None:
        self._providers.setdefault(fact, Provider(name=fact.name, fabric=fact.fabric, nics=fact.nics, place=place))

    def plugin(self, fact: PluginLine, place: Place) -> None:
        if fact.name is None:
            self._missing = self._missing or place
        else:
            self._plugins[fact.name] = None

    def failure(self, fact: FailureLine, place: Place) -> None:
        self._failures.setdefault(fact.text, Failure(plugin=fact.plugin, text=fact.text, place=place))

    def interfaces(self, fact: NicsLine, _place: Place) -> None:
        self._nics |= dict.fromkeys(fact.names)

    def version(self, fact: VersionLine, _place: Place) -> None:
        if fact.of == "nccl":
            self._nccl = fact.version
        else:
            self._ofi = fact.version

    @property
    def full(self) -> bool:
        """Whether more communicators are there than any process has: each channel could be of any of them."""
        return len(self._live) >= MOST_LIVE

    @property
    def size(self) -> int:
        """How many things are held, for a limit on memory."""
        threads = len(self._chosen) + len(self._starting)
        names = len(self._plugins) + len(self._nics) + len(self._failures) + len(self._providers) + len(self._networks)
        return len(self.members) + len(self.edges) + threads + names

    def stray_networks(self) -> tuple[Network, ...]:
        """Networks chosen for communicators whose initialisation was not seen, the first of each name."""
        waiting = {network.name: network for network in self._chosen.values()}
        return tuple((waiting | self._stray).values())

    def report(self, nccl: str | None) -> NcclProcess:
        return NcclProcess(
            host=self.host,
            pid=self.pid,
            nccl=self._nccl or nccl,
            ofi=self._ofi,
            plugins=tuple(self._plugins),
            plugin_missing=self._missing,
            providers=tuple(self._providers.values()),
            networks=tuple(self._networks.values()),
            stray_networks=self.stray_networks(),
            nics=tuple(self._nics),
            failures=tuple(self._failures.values()),
            first=self.first,
            last=self.last,
        )


def _own_ends(line: EdgeLine) -> tuple[tuple[int, str], ...]:
    """The rank and device that said it: of a line without direction, one of two."""
    ends = ((line.from_rank, line.from_device), (line.to_rank, line.to_device))
    return ends[:1] if line.direction == "send" else ends[1:] if line.direction else ends


_TAKERS: dict[type, Callable[..., None]] = {
    TopologyLine: ProcessLog.topology,
    EndLine: ProcessLog.ended,
    ProviderLine: ProcessLog.provider,
    PluginLine: ProcessLog.plugin,
    FailureLine: ProcessLog.failure,
    NicsLine: ProcessLog.interfaces,
    VersionLine: ProcessLog.version,
}
