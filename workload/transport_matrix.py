"""PURE: a `TransportReport` for readers: over what each host sends to each other, and what each host runs on."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from workload.nccl.report import Attempt, Edge, TransportReport


def matrix(report: TransportReport) -> list[dict[str, Any]]:
    """Of the attempt that counts: `from` and `to` are hosts, `via` counts the channels of each transport."""
    cells = channels(_counting(report))
    return [{"from": start, "to": to, "via": dict(sorted(ways.items()))} for (start, to), ways in sorted(cells.items())]


def channels(attempts: Iterable[Attempt]) -> Mapping[tuple[str, str], Counter[str]]:
    """How many channels lead from one host to another, by transport; those between ranks of known hosts."""
    seen = {
        (edge.from_host, edge.to_host, _way(edge), edge.communicator, edge.channel, edge.from_rank, edge.to_rank)
        for attempt in attempts
        for edge in attempt.edges
        if edge.from_host is not None and edge.to_host is not None
    }
    cells: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for start, to, way, *_ in seen:
        cells[start, to][way] += 1
    return cells


def hosts(report: TransportReport) -> list[dict[str, Any]]:
    """Of the attempt that counts: each host's networks as NCCL names them, and the providers that libfabric named."""
    networks: dict[str, set[str]] = defaultdict(set)
    providers: dict[str, set[str]] = defaultdict(set)
    for attempt in _counting(report):
        for process in attempt.processes:
            networks[process.host] |= {network.name for network in process.networks}
            providers[process.host] |= {provider.name for provider in process.providers}
    return [
        {"host": host, "networks": sorted(names), "providers": sorted(providers[host])}
        for host, names in sorted(networks.items())
    ]


def _counting(report: TransportReport) -> list[Attempt]:
    return [report.attempts[index] for index in report.counting]


def _way(edge: Edge) -> str:
    if edge.kind != "NET":
        return edge.kind
    return f"NET/{edge.network}" + ("+GDR" if edge.gdr else "")
