"""PURE: from what each process said to communicators, the channels between their ranks, and attempts in their order.

Processes that share a communicator are of one attempt: a retry's communicators have other ids and pids.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from workload.nccl.process import EdgeLog, MemberLog, ProcessLog
from workload.nccl.report import Attempt, Communicator, Edge, Member, Network
from workload.nccl.spans import Order, Spans, united

_LONGEST_ID = 300


class Groups:
    """Members by their communicator's id: NCCL's commId, or a child's parent with the child's number and colour."""

    def __init__(self, processes: Iterable[ProcessLog]) -> None:
        self.members: dict[str, list[MemberLog]] = defaultdict(list)
        self.by_rank: dict[tuple[str, int], list[MemberLog]] = defaultdict(list)
        self.ids: dict[MemberLog, str] = {}
        # A child takes over its parent's plugin.
        self.networks: dict[MemberLog, Network | None] = {}
        for process in processes:
            said: Counter[tuple[str, int]] = Counter()
            for member in process.members.values():
                # A parent was there before its child.
                name = self._id_of(member)
                # Up to NCCL 2.23 splits of one parent by one colour have one id: a rank's second is the second of each.
                said[name, member.line.rank] += 1
                if (number := said[name, member.line.rank]) > 1:
                    name = f"{name}~{number}"
                self.ids[member] = name
                self.networks[member] = member.network or (self.networks[member.parent] if member.parent else None)
                self.members[name].append(member)
                self.by_rank[name, member.line.rank].append(member)

    def _id_of(self, member: MemberLog) -> str:
        pairs = member.line.pairs
        own = pairs.get("commId", "")
        if "parent" in pairs and pairs["parent"] not in ("(nil)", "0x0"):
            up = self.ids[member.parent] if member.parent else f"?{member.process.host}:{member.process.pid}"
            number = pairs.get("splitCount", pairs.get("childCount", ""))
            own = "/".join(filter(None, (up, f"{number}.{pairs.get('color', '')}", own)))
            if len(own) > _LONGEST_ID:
                own = hashlib.sha256(own.encode()).hexdigest()[:16]
        return own or f"?{member.process.host}:{member.process.pid}:{member.line.pointer}"

    def communicator(self, name: str) -> Communicator:
        members = sorted(self.members[name], key=lambda one: (one.line.rank, one.process.host, one.process.pid))
        parents = {self.ids[one.parent] for one in members if one.parent}
        return Communicator(
            id=name,
            parent=min(parents) if parents else None,
            ranks=max(one.line.ranks for one in members),
            members=tuple(self._member(one) for one in members),
            nodes=tuple(sorted({count for one in members for count in one.nodes})),
        )

    def _member(self, log: MemberLog) -> Member:
        device = log.line.pairs.get("nvmlDev", log.line.pairs.get("cudaDev", ""))
        return Member(
            rank=log.line.rank,
            host=log.process.host,
            pid=log.process.pid,
            device=int(device) if device.isdecimal() else None,
            network=self.networks[log],
            started=log.started,
            completed=log.completed,
        )

    def host_of(self, name: str, rank: int) -> str | None:
        hosts = {member.process.host for member in self.by_rank.get((name, rank), ())}
        return hosts.pop() if len(hosts) == 1 else None

    def edges_of(self, process: ProcessLog) -> Iterator[Edge]:
        """A line that fits several communicators goes to the first that has none like it; said again, to the next."""
        taken: set[tuple[str, str]] = set()
        fitting: dict[tuple[object, ...], list[str]] = {}
        for (_, body), log in process.edges.items():
            line = log.line
            key = (log.members, line.from_rank, line.from_device, line.to_rank, line.to_device, line.network)
            if key not in fitting:
                fitting[key] = self._fitting(log)
            names = fitting[key]
            fresh = list(islice((name for name in names if (name, body) not in taken), log.count))
            fresh = fresh or names[: log.count]
            taken.update((name, body) for name in fresh)
            yield from (self._edge(process, log, name) for name in fresh or (None,))

    def _fitting(self, log: EdgeLog) -> list[str]:
        names = list(dict.fromkeys(self.ids[member] for member in log.members))
        names = [name for name in names if self._peer_fits(name, log)]
        between = {name for name in names if self._between(name, log)}
        # Only with NVLink between hosts is a channel that is none of the network's not within one.
        names = [name for name in names if (name in between) == (log.line.kind == "NET")] or names
        chose = {self.ids[member] for member in log.members if _chose(member, log.line.network)}
        return [name for name in names if name in chose] or names

    def _peer_fits(self, name: str, log: EdgeLog) -> bool:
        line = log.line
        ends = ((line.from_rank, line.from_device), (line.to_rank, line.to_device))
        for rank, device in ends:
            known = self.by_rank.get((name, rank), [])
            if known and not any(member.at(rank, device) for member in known):
                return False
        return True

    def _between(self, name: str, log: EdgeLog) -> bool:
        hosts = self.host_of(name, log.line.from_rank), self.host_of(name, log.line.to_rank)
        return None not in hosts and hosts[0] != hosts[1]

    def _edge(self, process: ProcessLog, log: EdgeLog, name: str | None) -> Edge:
        line = log.line
        return Edge(
            communicator=name,
            channel=line.channel,
            from_rank=line.from_rank,
            from_host=self.host_of(name, line.from_rank) if name else None,
            to_rank=line.to_rank,
            to_host=self.host_of(name, line.to_rank) if name else None,
            direction=line.direction,
            kind=line.kind,
            via=line.via,
            network=line.network,
            device=line.device,
            proxy_rank=line.proxy_rank,
            gdr=line.gdr,
            host=process.host,
            pid=process.pid,
            place=log.place,
            count=log.count,
        )


def _chose(member: MemberLog, network: str | None) -> bool:
    return member.network is not None and member.network.name == network


def attempts_of(processes: Sequence[ProcessLog], files: Sequence[str], nccl: str | None) -> list[tuple[Spans, Attempt]]:
    """In the order of their beginning."""
    groups = Groups(processes)
    together = [(_span_of(one), one) for one in _joined(processes, groups)]
    for span, alone in _without_communicator([one for one in processes if not one.members], together):
        together.append((span, alone))
    number = {file: index for index, file in enumerate(files)}
    together.sort(key=lambda one: min((number[file], first) for file, (first, _) in one[0].items()))
    return [(span, _attempt(one, groups, nccl)) for span, one in together]


def _attempt(processes: list[ProcessLog], groups: Groups, nccl: str | None) -> Attempt:
    processes = sorted(processes, key=lambda one: (one.host, one.pid))
    names = sorted({groups.ids[member] for one in processes for member in one.members.values()})
    edges = sorted(
        (edge for one in processes for edge in groups.edges_of(one)),
        key=lambda edge: (edge.communicator or "", edge.from_rank, edge.to_rank, edge.channel, edge.direction or ""),
    )
    return Attempt(
        processes=tuple(one.report(nccl) for one in processes),
        communicators=tuple(groups.communicator(name) for name in names),
        edges=tuple(edges),
    )


def _joined(processes: Sequence[ProcessLog], groups: Groups) -> list[list[ProcessLog]]:
    """Processes with communicators, those together that share one."""
    root: dict[ProcessLog, ProcessLog] = {one: one for one in processes if one.members}

    def top(one: ProcessLog) -> ProcessLog:
        while root[one] is not one:
            root[one] = root[root[one]]
            one = root[one]
        return one

    for members in groups.members.values():
        for member in members[1:]:
            root[top(member.process)] = top(members[0].process)
    found: dict[ProcessLog, list[ProcessLog]] = defaultdict(list)
    for one in root:
        found[top(one)].append(one)
    return list(found.values())


def _without_communicator(
    alone: Sequence[ProcessLog], attempts: Sequence[tuple[Spans, list[ProcessLog]]]
) -> list[tuple[Spans, list[ProcessLog]]]:
    """Puts those that ran during an attempt into it; the others are, together by where they stand, attempts too."""
    order = Order([span for span, _ in attempts])
    apart: dict[tuple[str, int], list[ProcessLog]] = defaultdict(list)
    for one in alone:
        during = order.overlapping(one.spans)
        if during is not None:
            attempts[during][1].append(one)
        else:
            file, (first, _) = next(iter(one.spans.items()))
            apart[file, order.begun_before(file, first)].append(one)
    return [(_span_of(together), together) for together in apart.values()]


def _span_of(processes: Iterable[ProcessLog]) -> Spans:
    return united(one.spans for one in processes)
