"""PURE: the rules on one attempt's communicators, networks and providers; those on channels are `channel_rules`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

from workload.nccl.channel_rules import ChannelRules
from workload.nccl.names import BUILT_IN_PLUGINS, LIBFABRIC_NETWORKS, SOCKET_NETWORKS
from workload.nccl.report import Attempt, Communicator, Member, NcclProcess
from workload.verdict import Value, Wanted

# Of one rule: more would say the same of further ranks.
_MOST_REASONS = 12
_NETWORKS = {"efa": LIBFABRIC_NETWORKS, "socket": SOCKET_NETWORKS}


@dataclass(frozen=True)
class Judged:
    """Of one attempt: reasons against, reasons missing, and what holds if there are neither."""

    value: Value
    reasons: tuple[str, ...]
    one_host: bool


class AttemptRule:
    """The rules on one attempt."""

    def __init__(self, attempt: Attempt, wanted: Wanted) -> None:
        self._attempt, self._wanted = attempt, wanted
        self._spanning = [one for one in attempt.communicators if spans_hosts(one)]
        self._several = [one for one in self._spanning if surely_spans_hosts(one)]
        self._undecided = [one for one in attempt.communicators if not spans_hosts(one) and not one.one_host]
        self._processes = {(one.host, one.pid): one for one in attempt.processes}
        inside = {(member.host, member.pid) for one in self._spanning for member in one.members}
        self._inside = {key: one for key, one in self._processes.items() if key in inside}
        self._rank = {
            (member.host, member.pid): member.rank
            for one in sorted(attempt.communicators, key=lambda one: one.ranks)
            for member in one.members
        }
        self._networks = _NETWORKS.get(wanted.expect, frozenset())
        self._channels = ChannelRules(attempt, self._spanning, self._networks, gdr=wanted.gdr)

    def judged(self, lost: list[str]) -> Judged:
        one_host = not self._spanning and not self._undecided
        if against := _few(self._against()):
            return Judged("refuted", against, one_host)
        if missing := _few([*self._missing(), *lost]):
            return Judged("unproven", missing, one_host)
        return Judged("proven", (self._proof(),), one_host)

    def _against(self) -> Iterator[str]:
        yield from self._channels.against(self._wanted.expect)
        if self._wanted.expect == "gloo":
            return
        for communicator in self._several:
            yield from self._other_networks(communicator)
        several = {(member.host, member.pid) for one in self._several for member in one.members}
        for process in self._inside.values() if self._wanted.expect == "efa" else ():
            providers = process.providers if (process.host, process.pid) in several else ()
            if providers and not any(one.name.startswith("efa") for one in providers):
                yield f"provider: {self._of(process)} runs on {providers[-1].name}, not efa ({providers[-1].place})"

    def _other_networks(self, communicator: Communicator) -> Iterator[str]:
        for member in communicator.members:
            if member.network and member.network.name not in self._networks:
                yield (
                    f"network: {_who(member.rank, member.host, member.pid)} chose {member.network.name} for "
                    f"communicator {communicator.id}, expected {self._wanted.expect} ({member.network.place})"
                )

    def _missing(self) -> Iterator[str]:
        if self._wanted.expect == "gloo":
            yield "gloo: it writes nothing into NCCL's log, which cannot prove it"
            return
        yield from self._missing_of_communicators()
        yield from self._missing_of_processes()
        yield from self._channels.missing(self._wanted.expect)
        yield from self._missing_of_wanted()

    def _missing_of_communicators(self) -> Iterator[str]:
        if not self._spanning:
            hosts = ", ".join(self._attempt.hosts)
            yield f"communicator: none is known to span hosts; seen: {hosts} ({self._attempt.processes[0].first})"
        for one in (*self._spanning, *self._undecided):
            done = Counter(member.rank for member in one.members if member.completed)
            # A line may name any number of ranks.
            if silent := list(islice((str(rank) for rank in range(one.ranks) if rank not in done), _MOST_REASONS)):
                yield f"communicator: {one.id} of {one.ranks}: rank {', '.join(silent)} completed no initialisation"
            if twice := [str(rank) for rank, count in sorted(done.items()) if count > 1 or rank >= one.ranks]:
                yield f"communicator: {one.id} of {one.ranks}: rank {', '.join(twice)} is there twice or outside it"
            for member in one.members:
                if not member.started and self._says_beginnings(member):
                    who = _who(member.rank, member.host, member.pid)
                    yield f"communicator: {one.id}: the beginning of {who} is cut off ({member.completed})"
        for one in self._spanning:
            if one.nodes and one.nodes != (len(one.hosts),):
                counted = " and ".join(str(count) for count in one.nodes)
                names = ", ".join(one.hosts)
                yield f"hosts: NCCL counts {counted} in {one.id}, names say {len(one.hosts)}: {names}"
            if not surely_spans_hosts(one):
                yield from self._other_networks(one)

    def _says_beginnings(self, member: Member) -> bool:
        """NCCL 2.18.1 says only that an initialisation is complete."""
        version = self._processes[member.host, member.pid].nccl or ""
        return not version.startswith("2.18.1+")

    def _missing_of_processes(self) -> Iterator[str]:
        for communicator in self._spanning:
            for member in communicator.members:
                if member.network is None:
                    who = _who(member.rank, member.host, member.pid)
                    place = member.started or member.completed
                    yield f"network: {who} named none for communicator {communicator.id} ({place})"
        for key, process in self._processes.items():
            for network in process.stray_networks:
                if network.name not in self._networks:
                    yield (
                        f"network: {self._of(process)} chose {network.name} for a communicator that is not seen "
                        f"({network.place})"
                    )
            if self._wanted.expect == "efa" and (key in self._inside or not self._spanning):
                yield from self._failures_of(process)
            if self._wanted.expect == "efa" and key in self._inside:
                yield from self._missing_of_provider(process)

    def _missing_of_provider(self, process: NcclProcess) -> Iterator[str]:
        if not process.providers:
            yield f"provider: {self._of(process)} named none ({process.last})"
        for provider in process.providers:
            if not provider.name.startswith("efa"):
                yield f"provider: {self._of(process)} named {provider.name} beside efa ({provider.place})"

    def _failures_of(self, process: NcclProcess) -> Iterator[str]:
        for failure in process.failures:
            if failure.plugin not in BUILT_IN_PLUGINS:
                yield f"provider: {self._of(process)}: '{failure.text}' ({failure.place})"

    def _missing_of_wanted(self) -> Iterator[str]:
        wanted = self._wanted
        hosts = sorted({host for one in self._spanning for host in one.hosts})
        if wanted.hosts is not None and len(hosts) != wanted.hosts:
            names = ", ".join(hosts) or "none"
            yield f"hosts: {len(hosts)} in communicators over hosts, wanted {wanted.hosts}: {names}"
        ranks = max((one.ranks for one in self._spanning), default=0)
        if wanted.ranks is not None and wanted.ranks not in (ranks, len(self._inside)):
            yield f"ranks: the largest communicator over hosts has {ranks}, wanted {wanted.ranks}"
        if wanted.nics is not None and wanted.expect == "efa":
            for process in self._inside.values():
                counts = [one.nics for one in process.providers if one.nics is not None]
                if not counts or max(counts) < wanted.nics:
                    found = f"found {max(counts)} interfaces" if counts else "did not say how many interfaces it found"
                    place = process.providers[-1].place if process.providers else process.last
                    yield f"interfaces: {self._of(process)} {found}, wanted {wanted.nics} ({place})"

    def _proof(self) -> str:
        ranks = max(one.ranks for one in self._spanning)
        hosts = {host for one in self._spanning for host in one.hosts}
        below = ""
        if self._wanted.expect == "efa":
            names = {f"{one.fabric or one.name}" for process in self._inside.values() for one in process.providers}
            below = f" over {', '.join(sorted(names))}"
        counted = "1 communicator" if len(self._spanning) == 1 else f"{len(self._spanning)} communicators"
        channels = self._channels.proof()
        return (
            f"{counted} of up to {ranks} ranks on {len(hosts)} hosts, complete; {channels}{below}; no other transport"
        )

    def _of(self, process: NcclProcess) -> str:
        return _who(self._rank.get((process.host, process.pid)), process.host, process.pid)


def spans_hosts(communicator: Communicator) -> bool:
    """By its members' names, or as NCCL itself counted: names are cut at the first dot and may be the same."""
    return len(communicator.hosts) > 1 or max(communicator.nodes, default=1) > 1


def surely_spans_hosts(communicator: Communicator) -> bool:
    """Also if a host's name that is the end of another one is that one, its beginning lost."""
    if max(communicator.nodes, default=1) > 1:
        return True
    backwards = sorted(host[::-1] for host in communicator.hosts)
    if any(not longer.startswith(name) for name, longer in pairwise(backwards)):
        return True
    # No two ranks of a communicator have one GPU.
    devices = communicator.devices.values()
    return sum(map(len, devices)) > len(set().union(*devices))


def _who(rank: int | None, host: str, pid: int) -> str:
    return f"rank {rank} on {host} (pid {pid})" if rank is not None else f"process {pid} on {host}"


def _few(reasons: Iterable[str]) -> tuple[str, ...]:
    """The first of each rule, and how many more there are."""
    counts: Counter[str] = Counter()
    shown = []
    for reason in dict.fromkeys(reasons):
        rule = reason.partition(":")[0]
        counts[rule] += 1
        if counts[rule] <= _MOST_REASONS:
            shown.append(reason)
    more = {rule: count - _MOST_REASONS for rule, count in counts.items() if count > _MOST_REASONS}
    return (*shown, *(f"{rule}: and {count} more" for rule, count in more.items()))
