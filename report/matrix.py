"""PURE: over what each host sent to each other, and who took part."""

from collections.abc import Mapping, Sequence
from typing import Any

from report import reading
from report.markup import Html, joined, tag
from report.parts import counted, legend, missing, per_run, section, table
from report.run import NOT_RECORDED, Run
from report.units import size
from workload.nccl.names import LIBFABRIC_NETWORKS, SOCKET_NETWORKS

_KINDS = {
    "fabric": "libfabric: EFA's network",
    "socket": "TCP sockets",
    "near": "within one host",
    "other": "another network",
}

_NEEDED = "needed, at least"


def transport(runs: Sequence[Run]) -> Html:
    return section("transport", "Transport", per_run(runs, [_of_run(run) for run in runs], beside=False))


def kind_of(way: str) -> str:
    """Of a transport as `workload.transport_matrix` names it: NET/Libfabric+GDR, P2P, ..."""
    if not way.startswith("NET/"):
        return "near" if way in ("P2P", "SHM") else "other"
    network = way.removeprefix("NET/").removesuffix("+GDR")
    return "fabric" if network in LIBFABRIC_NETWORKS else "socket" if network in SOCKET_NETWORKS else "other"


def _of_run(run: Run) -> Html:
    cells = reading.mappings(run.record, "transport", "matrix")
    drawn = _matrix(cells, run) if cells else missing(_no_matrix(run))
    return joined(drawn, _hosts(run), _ranks(run), _devices(run))


def _matrix(cells: Sequence[Mapping[str, Any]], run: Run) -> Html:
    ways = {(str(cell.get("from")), str(cell.get("to"))): reading.mapping(cell, "via") for cell in cells}
    hosts = sorted({host for pair in ways for host in pair})
    rows: list[list[str | Html]] = [[start, *(_cell(ways.get((start, to), {})) for to in hosts)] for start in hosts]
    used = {kind_of(str(way)) for cell in ways.values() for way in cell}
    gdr = any(str(way).endswith("+GDR") for cell in ways.values() for way in cell)
    return joined(
        table(
            f"Channels from each host (rows) to each host (columns){run.suffix}",
            ["from \\ to", *hosts],
            rows,
            numbers=False,
            class_="matrix",
        ),
        tag("p", "GDR: the network reads and writes GPU memory without the host's.", class_="aside") if gdr else None,
        legend((f"way {kind}", words) for kind, words in _KINDS.items() if kind in used),
    )


def _cell(ways: Mapping[str, Any]) -> Html:
    if not ways:
        return tag("span", "no channel", class_="none")
    said = []
    for way, count in ways.items():
        channels = counted(int(reading.number({"n": count}, "n") or 0), "channel")
        said.append(tag("span", tag("b", str(way)), f" {channels}", class_=f"way {kind_of(str(way))}"))
    return joined(said)


def _no_matrix(run: Run) -> str:
    ranks = reading.mappings(run.facts, "transport", "ranks")
    backends = sorted({str(rank.get("backend") or "an unnamed backend") for rank in ranks})
    if not run.record or not ranks:
        return run.missing("no rank reported how it communicated")
    if backends == ["gloo"]:
        return f"{NOT_RECORDED}this run's ranks communicated through gloo, and only NCCL tells of its channels"
    return run.missing(f"the evidence holds none of NCCL's lines about channels between ranks ({', '.join(backends)})")


def _hosts(run: Run) -> Html | None:
    hosts = reading.mappings(run.record, "transport", "hosts")
    if not hosts:
        return None
    rows = [
        [
            str(host.get("host")),
            ", ".join(reading.texts(host, "networks")) or "-",
            ", ".join(reading.texts(host, "providers")) or "-",
        ]
        for host in hosts
    ]
    return table(
        f"What NCCL chose on each host{run.suffix}", ["host", "network", "libfabric providers"], rows, numbers=False
    )


def _ranks(run: Run) -> Html:
    ranks = reading.mappings(run.facts, "transport", "ranks")
    world = run.number("transport", "worldSize")
    if not ranks:
        return missing(run.missing("no rank reported itself") + " (ranks)")
    by_node: dict[str, list[Mapping[str, Any]]] = {}
    for rank in ranks:
        by_node.setdefault(str(rank.get("node") or "-"), []).append(rank)
    rows = [
        [
            str(members[0].get("host") or "-"),
            tag("code", node[:12]),
            ", ".join(str(member.get("rank")) for member in members),
            ", ".join(sorted({str(member.get("backend") or "-") for member in members})),
            ", ".join(sorted({str(member.get("device") or "-") for member in members})),
        ]
        for node, members in by_node.items()
    ]
    of_all = "" if world is None else f" of {world:.0f}"
    caption = f"{len(ranks)}{of_all} ranks on {counted(len(by_node), 'node')}{run.suffix}"
    return table(caption, ["host", "Ray node", "ranks", "backend", "devices"], rows, numbers=False)


def _devices(run: Run) -> Html | None:
    """Each host's devices, and below them the least that they had to move."""
    by_host: dict[str, list[list[str]]] = {}
    needed: dict[str, Mapping[str, Any]] = {}
    for rank in reading.mappings(run.record, "transport", "ranks"):
        host = str(rank.get("host") or rank.get("node") or "-")
        needed.setdefault(host, reading.mapping(rank, "mustMove"))
        for device in reading.mappings(rank, "efaDevices"):
            told = [host, str(device.get("name")), _moved(device, "sent"), _moved(device, "received")]
            by_host.setdefault(host, []).append(told)
    if not by_host:
        return None
    rows = []
    for host, devices in by_host.items():
        rows += [*devices, [host, _NEEDED, _bytes(needed[host], "sent"), _bytes(needed[host], "received")]]
    caption = f"Bytes over the training steps, by the EFA devices' own counters{run.suffix}"
    return table(caption, ["host", "device", "sent", "received"], rows, class_="devices")


def _moved(device: Mapping[str, Any], direction: str) -> str:
    told = _bytes(device, direction)
    return told if told != "-" else str(device.get("reason") or "-")


def _bytes(counters: Mapping[str, Any], direction: str) -> str:
    value = reading.number(counters, direction)
    return "-" if value is None else size(value)
