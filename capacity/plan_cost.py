"""PURE: what an hour of a whole stack costs at each place of a plan, before anything of it is declared: counted as the
program itself does (infra/cost.py), which shows it in each preview and holds maxHourlyUsd against it.
"""

from collections.abc import Callable
from typing import Any

from capacity.structured import structured
from infra import cost
from infra.eks_settings import EksStorageSettings, NetworkSettings, SystemNodesSettings
from infra.prices import prices_of
from workload.errors import BadInputError

# Reads a setting as the stack's file, or Pulumi.yaml, has it.
Config = Callable[[str], Any]
# The control plane's two and the GPU nodes' own, which may be one of them.
_ZONES = 3


def around_nodes(config: Config, region: str) -> float | None:
    """USD an hour of what stands around the GPU nodes, their disks with it; None where a price of it is not known."""
    return cost.at_most(_around(config, region))


def at_most(config: Config, region: str) -> float | None:
    """USD an hour that the stack counts itself as at most, spot with its price on demand; None where it cannot tell."""
    count, kind = _number(config, "gpuNodes"), str(config("gpuInstanceType"))
    nodes = cost.gpu_nodes(count, kind, str(config("gpuMarket")), prices_of(region))
    there_already = bool(config("gpuExistingGroup"))
    return cost.at_most([*([] if there_already else [nodes]), *_around(config, region)])


def _around(config: Config, region: str) -> list[cost.Line]:
    prices = prices_of(region)
    lines = []
    if not config("gpuExistingGroup"):
        size, iops, mibps = (_number(config, key) for key in ("gpuDiskGiB", "gpuDiskIops", "gpuDiskThroughput"))
        lines.append(cost.gpu_disks(_number(config, "gpuNodes"), prices, gib=size, iops=iops, mibps=mibps))
    if not config("eksExistingCluster"):
        system = SystemNodesSettings(
            instance_type=str(config("systemInstanceType")),
            nodes=_number(config, "systemNodes"),
            disk_gib=_number(config, "systemDiskGiB"),
        )
        zones = _texts(config, "vpcZones")
        network = NetworkSettings(
            cidr="",
            zones=zones,
            nat=str(config("vpcNat")),
            endpoints=_texts(config, "vpcEndpoints"),
            vpc_id=str(config("vpcId") or ""),
            private_subnets=(),
        )
        # Those of another region are left out of its stack's file.
        here = [zone for zone in zones if zone.startswith(region)]
        lines += cost.cluster(system, network, prices, zones=len(here) or _ZONES)
    kind = str(config("eksStorage"))
    of_fsx = kind == "fsx"
    storage = EksStorageSettings(
        kind=kind,
        path="",
        expire_days=0,
        keep=False,
        fsx_gib=_number(config, "fsxGiB") if of_fsx else 0,
        fsx_throughput=_number(config, "fsxThroughput") if of_fsx else 0,
    )
    return [*lines, *cost.storage(storage, prices)]


def _number(config: Config, key: str) -> int:
    try:
        return int(config(key))
    except (TypeError, ValueError):
        raise BadInputError(f"{key} is '{config(key)}': it is a whole number") from None


def _texts(config: Config, key: str) -> tuple[str, ...]:
    value = structured(config(key) or [])
    if not isinstance(value, list):
        raise BadInputError(f"{key} is '{value}': it is a list (`pulumi config set --path '{key}[0]' ...`)")
    return tuple(map(str, value))
