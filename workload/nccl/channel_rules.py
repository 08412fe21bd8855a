"""PURE: the rules on channels between hosts, of one attempt."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from workload.nccl.report import Attempt, Communicator, Edge

Pair = tuple[str, str]


class ChannelRules:
    """Every channel between hosts goes over one of `networks`, and each used communicator shows all of its own."""

    def __init__(
        self, attempt: Attempt, spanning: Sequence[Communicator], networks: frozenset[str], *, gdr: bool
    ) -> None:
        self._networks, self._gdr = networks, gdr
        self._spanning = {one.id: one for one in spanning}
        # Of those whose hosts NCCL itself did not count as so many.
        self._devices = {
            one.id: one.devices for one in spanning if not (one.complete and one.nodes == (len(one.hosts),))
        }
        self._chosen = {
            (one.id, member.host, member.pid): member.network.name
            for one in spanning
            for member in one.members
            if member.network
        }
        self._across = [edge for edge in attempt.edges if self._crosses(edge)]
        self._others = [edge for edge in attempt.edges if not self._crosses(edge)]
        self._by_communicator: dict[str, list[Edge]] = defaultdict(list)
        for edge in self._across:
            self._by_communicator[edge.communicator or ""].append(edge)

    def _crosses(self, edge: Edge) -> bool:
        if edge.between_hosts or edge.communicator is None:
            return bool(edge.between_hosts)
        # One name, and as many hosts by NCCL's count as ranks: then no two of them share a host.
        communicator = self._spanning.get(edge.communicator)
        return communicator is not None and communicator.nodes == (communicator.ranks,)

    def against(self, expect: str) -> Iterator[str]:
        for edge in self._across:
            if (wrong := self._wrong(edge, expect)) and not self._may_be_within(edge):
                yield wrong

    def _wrong(self, edge: Edge, expect: str) -> str | None:
        if expect == "gloo":
            return f"channel: {_said(edge)}: NCCL, not gloo, connected these hosts ({edge.place})"
        if edge.network not in self._networks:
            return f"channel: {_said(edge)}, expected {expect} ({edge.place})"
        if self._gdr and not edge.gdr:
            return f"gdr: {_said(edge)} without GPUDirect RDMA ({edge.place})"
        return None

    def _may_be_within(self, edge: Edge) -> bool:
        """Its hosts may be one, the beginning of whose name was lost in some lines: a name is the end of the other,
        and neither a device that both have nor NCCL's own count tells them apart."""
        start, end, devices = edge.from_host, edge.to_host, self._devices.get(edge.communicator or "", {})
        if not start or not end or start == end or not (start.endswith(end) or end.endswith(start)):
            return False
        return start in devices and end in devices and devices[start].isdisjoint(devices[end])

    def missing(self, expect: str) -> Iterator[str]:
        if self._spanning and not self._across:
            names = ", ".join(list(self._spanning)[:4])
            yield f"channel: none between hosts is seen in {names}: no collective has run over it"
        for name, edges in sorted(self._by_communicator.items()):
            yield from self._missing_ends(name, edges)
        for edge in self._across:
            chosen = self._chosen.get((edge.communicator or "", edge.host, edge.pid))
            if (wrong := self._wrong(edge, expect)) and self._may_be_within(edge):
                yield f"{wrong}, but one host's name is the end of the other's, whose beginning may be lost"
            elif chosen is not None and edge.network != chosen:
                yield f"channel: {_said(edge)}, though its process chose {chosen} ({edge.place})"
        for edge in self._others:
            within = edge.communicator is not None and edge.communicator not in self._spanning
            if edge.kind in ("P2P", "SHM") or within or edge.network in self._networks:
                continue
            yield f"channel: {_said(edge)}: not expected where {expect} is ({edge.place})"
        joined = _reached({pair for edges in self._by_communicator.values() for pair in _pairs(edges)})
        for host in sorted({host for one in self._spanning.values() for host in one.hosts}):
            if self._across and host not in joined:
                yield f"channel: none that is seen joins {host} with another host in both directions"

    def _missing_ends(self, name: str, edges: Sequence[Edge]) -> Iterator[str]:
        said = {(pair, edge.direction) for edge in edges for pair in _pairs([edge])}
        pairs = _pairs(edges)
        for pair in sorted(pairs):
            for direction, end in (("send", pair[0]), ("receive", pair[1])):
                if (pair, direction) not in said:
                    yield f"channel: {pair[0]} -> {pair[1]} in {name}: {end} shows no [{direction}]"
        joined = _reached(pairs)
        for host in self._spanning[name].hosts:
            if host not in joined:
                yield f"channel: {name}: {host} is not seen joined with the other hosts in both directions"

    def proof(self) -> str:
        counts = Counter(edge.via.partition("/")[0] + f"/{edge.network}" for edge in self._across)
        ways = ", ".join(f"{count} {way}" for way, count in sorted(counts.items()))
        return f"channels between hosts: {ways}"


def _pairs(edges: Sequence[Edge]) -> set[Pair]:
    return {(edge.from_host, edge.to_host) for edge in edges if edge.from_host and edge.to_host}


def _reached(pairs: set[Pair]) -> set[str]:
    """Hosts of which each reaches each, the largest such set that holds the first."""
    hosts = sorted({host for pair in pairs for host in pair})
    if not hosts:
        return set()
    forward, backward = _from(hosts[0], pairs), _from(hosts[0], {(to, start) for start, to in pairs})
    return forward & backward


def _from(host: str, pairs: set[Pair]) -> set[str]:
    nexts: dict[str, set[str]] = defaultdict(set)
    for start, to in pairs:
        nexts[start].add(to)
    reached, edge = {host}, [host]
    while edge:
        fresh = nexts[edge.pop()] - reached
        reached |= fresh
        edge.extend(fresh)
    return reached


def _said(edge: Edge) -> str:
    """Which rank says what of which channel."""
    start = f"rank {edge.from_rank} on {edge.from_host or 'an unknown host'}"
    end = f"rank {edge.to_rank} on {edge.to_host or 'an unknown host'}"
    return f"{start} -> {end} via {edge.via}, told by pid {edge.pid} on {edge.host}"
