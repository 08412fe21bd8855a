"""PURE: about what an hour of a whole stack costs at each place of a plan, before anything of it is declared.

The program's own estimate (infra/cost.py) is shown by each preview, and is what maxHourlyUsd is held against.
"""

from collections.abc import Callable
from typing import Any

from infra.prices import HOURS_A_MONTH, prices_of

# Reads a setting as the stack's file, or Pulumi.yaml, has it.
Config = Callable[[str], Any]
_ZONES = 2


def around_nodes(config: Config, region: str) -> float | None:
    """USD an hour of what stands around the GPU nodes; None where a price of it is not known.

    Without file system, endpoints, and what the nodes' disks have above 3000 operations and 125 MiB/s.
    """
    prices = prices_of(region)
    disk = prices.gp3_gib_month
    nodes, gib = int(config("gpuNodes")), int(config("gpuDiskGiB"))
    parts: list[float | None] = [None if disk is None else nodes * gib * disk / HOURS_A_MONTH]
    if not config("eksExistingCluster"):
        count = int(config("systemNodes"))
        each = prices.instances.get(str(config("systemInstanceType")))
        parts += [None if each is None else count * each, prices.control_plane]
        parts += [None if disk is None else count * int(config("systemDiskGiB")) * disk / HOURS_A_MONTH]
        if not config("vpcId"):
            gateways = {"none": 0, "one": 1}.get(str(config("vpcNat")), _ZONES)
            for price in (prices.nat_gateway, prices.public_ipv4):
                parts.append(None if price is None else gateways * price)
    return None if any(part is None for part in parts) else sum(part or 0.0 for part in parts)
