"""PURE: what an eks stack costs an hour while it is up, line by line."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from infra.eks_settings import EksSettings, EksStorageSettings, NetworkSettings, SystemNodesSettings
from infra.launch_template import SYSTEM_THROUGHPUT
from infra.prices import GP3_IOPS, GP3_MIBPS, RegionPrices, prices_of
from infra.vpc_endpoints import plan_endpoints
from workload.errors import BadInputError

_DEFAULT_ZONES = 2
UNCOUNTED = "data transfer, requests, logs, S3 storage and KMS are not counted"


@dataclass(frozen=True, kw_only=True)
class Line:
    """`count` of `what` together cost `hourly_usd`; None where no price is known. `at_most_usd` may still be known."""

    what: str
    count: int
    hourly_usd: float | None
    at_most_usd: float | None = None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """`total` is the sum of the lines whose price is known; `lacks` names the others."""

    lines: tuple[Line, ...]
    as_of: date
    region: str
    notes: tuple[str, ...]

    @property
    def total(self) -> float:
        return round(sum(line.hourly_usd or 0.0 for line in self.lines), 4)

    @property
    def lacks(self) -> tuple[str, ...]:
        return tuple(f"{line.count} x {line.what}" for line in self.lines if line.hourly_usd is None)

    def outputs(self) -> dict[str, Any]:
        """As a stack output: plain values only."""
        return {
            "totalUsd": self.total,
            "lacks": list(self.lacks),
            "pricesOf": self.as_of.isoformat(),
            "region": self.region,
            "lines": [
                {"what": line.what, "count": line.count, "hourlyUsd": line.hourly_usd and round(line.hourly_usd, 4)}
                for line in self.lines
            ],
            "notes": list(self.notes),
        }

    def text(self) -> str:
        """For people, several lines."""
        total = f"{'at least' if self.lacks else 'total'}, USD an hour"
        what = [f"{line.count} x {line.what}" for line in self.lines]
        width = max(len(text) for text in [*what, total])
        rows = [
            f"  {text:<{width}}  {'no price' if line.hourly_usd is None else f'{line.hourly_usd:.3f}':>8}"
            for text, line in zip(what, self.lines, strict=True)
        ]
        return "\n".join(
            [
                f"Estimated cost in {self.region} while the stack is up (list prices of {self.as_of}, on demand):",
                *rows,
                f"  {total:<{width}}  {self.total:>8.3f}",
                *([f"  without {', '.join(self.lacks)}"] if self.lacks else []),
                *(f"  {note}" for note in self.notes),
            ]
        )


def check_spending(cost: Estimate, limit: float | None) -> None:
    """Raises BadInputError where an hour may cost more than `limit` USD, or nobody can tell."""
    if limit is None:
        return
    unknown = [f"{line.count} x {line.what}" for line in cost.lines if _most(line) is None]
    most = at_most([line for line in cost.lines if _most(line) is not None]) or 0.0
    if most > limit:
        bound = "at least " if unknown else "up to " if cost.lacks else ""
        raise BadInputError(
            f"this stack would cost {bound}${most:.2f} an hour (list prices of {cost.as_of}), "
            f"and maxHourlyUsd is {limit:g}: nothing was made. Take fewer or smaller nodes, or set it to "
            f"{math.ceil(most * 100) / 100:g} or more\n{cost.text()}"
        )
    if unknown:
        raise BadInputError(
            f"maxHourlyUsd {limit:g} cannot be held: no price is known in {cost.region} of {', '.join(unknown)}. "
            "Nothing was made. Leave it empty to go ahead without a limit, or take a region of infra/prices.py"
        )


def at_most(lines: Sequence[Line]) -> float | None:
    """USD an hour that they cost together at most, as `check_spending` counts; None where nobody can tell."""
    each = [_most(line) for line in lines]
    return None if None in each else round(sum(one or 0.0 for one in each), 4)


def _most(line: Line) -> float | None:
    return line.at_most_usd if line.hourly_usd is None else line.hourly_usd


def estimate(
    settings: EksSettings, *, reserved: bool, zones: Sequence[str] = (), prices: RegionPrices | None = None
) -> Estimate:
    """`reserved` says that a reservation is made here; `zones` are the network's, where they are chosen already.

    `prices` in place of the table's, from a source with a date of its own.
    """
    region = settings.aws.region
    prices = prices_of(region) if prices is None else prices
    zone_count = len(zones) or len(settings.network.zones) or _DEFAULT_ZONES
    lines, notes = _gpu_nodes(settings, prices, reserved=reserved)
    if not settings.cluster.existing:
        lines += cluster(settings.system, settings.network, prices, zones=zone_count)
    lines += storage(settings.storage, prices)
    if settings.storage.kind == "claim":
        notes.append("the volume claim's price is its storage class's to say")
    return Estimate(lines=tuple(lines), as_of=prices.as_of, region=region, notes=(*notes, UNCOUNTED))


def gpu_nodes(count: int, instance_type: str, market: str, prices: RegionPrices) -> Line:
    """Their own price, without disks."""
    nodes = _instances(count, instance_type, "GPU nodes", prices)
    if market == "spot":
        # Spot never costs more than the same on demand.
        return replace(nodes, what=f"{nodes.what} (spot)", hourly_usd=None, at_most_usd=nodes.hourly_usd)
    if market == "capacity-block":
        return replace(nodes, what=f"{nodes.what} (capacity block)", hourly_usd=0.0)
    return nodes


def gpu_disks(count: int, prices: RegionPrices, *, gib: int, iops: int, mibps: int) -> Line:
    return _disks(count, "GPU nodes", prices, gib=gib, iops=iops, mibps=mibps)


def cluster(system: SystemNodesSettings, network: NetworkSettings, prices: RegionPrices, *, zones: int) -> list[Line]:
    """A cluster made here, and its network over so many zones where that is made here too."""
    return [
        _instances(system.nodes, system.instance_type, "system nodes", prices),
        _disks(system.nodes, "system nodes", prices, gib=system.disk_gib, mibps=SYSTEM_THROUGHPUT),
        Line(what="EKS control plane", count=1, hourly_usd=prices.control_plane),
        *([] if network.vpc_id else _network(network, prices, zones)),
    ]


def _gpu_nodes(settings: EksSettings, prices: RegionPrices, *, reserved: bool) -> tuple[list[Line], list[str]]:
    gpu, market = settings.gpu, settings.capacity.market
    if not gpu.nodes or gpu.existing_group:
        return [], [f"the GPU nodes of {gpu.existing_group} are not counted"] if gpu.existing_group else []
    nodes = gpu_nodes(gpu.nodes, gpu.instance.name, market, prices)
    lines, notes = [nodes], []
    if market == "spot":
        notes = ["spot prices move and are not estimated"]
    elif market == "capacity-block":
        notes = ["a capacity block is paid when it is bought"]
    elif reserved:
        lines.append(Line(what=f"capacity reservation of {gpu.nodes} x {gpu.instance.name}", count=1, hourly_usd=0.0))
        price = "the price" if nodes.hourly_usd is None else f"the {nodes.hourly_usd:.3f}"
        end = settings.capacity.until
        notes = [f"the reservation bills {price} of its nodes from its creation to {end} or destroy, with them or idle"]
    elif settings.capacity.mode == "held":
        notes = [f"reservation {settings.capacity.reservation} bills its nodes' price, with them or idle"]
    disks = gpu_disks(gpu.nodes, prices, gib=gpu.disk_gib, iops=gpu.disk_iops, mibps=gpu.disk_throughput)
    return [*lines, disks], notes


def _network(network: NetworkSettings, prices: RegionPrices, zones: int) -> list[Line]:
    nat = network.nat
    spread = zones if nat == "per-zone" else 1
    gateways = 0 if nat == "none" else spread
    interfaces = spread * len(plan_endpoints(nat=nat, asked=network.endpoints).interface)
    counted = (
        ("NAT gateway", gateways, prices.nat_gateway),
        ("public IPv4 address", gateways, prices.public_ipv4),
        ("interface endpoint in a zone", interfaces, prices.interface_endpoint),
    )
    return [
        Line(what=what, count=count, hourly_usd=None if price is None else count * price)
        for what, count, price in counted
        if count
    ]


def storage(asked: EksStorageSettings, prices: RegionPrices) -> list[Line]:
    """A file system made here; a bucket bills by what is in it."""
    if asked.kind != "fsx":
        return []
    what = f"FSx for Lustre, {asked.fsx_gib} GiB at {asked.fsx_throughput} MB/s each TiB"
    return [Line(what=what, count=1, hourly_usd=prices.fsx(asked.fsx_gib, asked.fsx_throughput))]


def _instances(count: int, instance_type: str, role: str, prices: RegionPrices) -> Line:
    price = prices.instances.get(instance_type)
    hourly = None if price is None else count * price
    return Line(what=f"{instance_type}, {role}", count=count, hourly_usd=hourly)


def _disks(
    count: int, role: str, prices: RegionPrices, *, gib: int, iops: int = GP3_IOPS, mibps: int = GP3_MIBPS
) -> Line:
    what = f"gp3 disk of {gib} GiB, {role}"
    each = prices.gp3(gib, iops=iops, mibps=mibps)
    return Line(what=what, count=count, hourly_usd=None if each is None else count * each)
