"""PURE: what AWS asks for an hour of things, on demand, in USD, without tax and data transfer: a dated table.

Instances, gp3 and IPv4 addresses come from public copies of the Price List API's answers of that day (for us-east-2 a
part of them, and those are us-east-1's); the rest are AWS's long-standing list prices. The API itself was not asked.
AWS has changed such prices by a third within a year: read the date.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

AS_OF = date(2026, 9, 10)
# AWS's own number of hours in a month.
HOURS_A_MONTH = 730
# What a gp3 volume has without paying more.
GP3_IOPS, GP3_MIBPS = 3000, 125


@dataclass(frozen=True, kw_only=True)
class RegionPrices:
    """USD an hour each, but `*_month`, which are USD a month for a GiB, an IOPS or a MiB/s; None is not known.

    `instances` is by EC2 type (Linux), `fsx_gib_month` by MB/s for each TiB (FSx for Lustre, PERSISTENT_2, SSD).
    """

    as_of: date
    instances: Mapping[str, float] = field(default_factory=dict)
    control_plane: float | None = None
    nat_gateway: float | None = None
    public_ipv4: float | None = None
    interface_endpoint: float | None = None
    gp3_gib_month: float | None = None
    gp3_iops_month: float | None = None
    gp3_mibps_month: float | None = None
    fsx_gib_month: Mapping[int, float] = field(default_factory=dict)

    def gp3(self, gib: int, *, iops: int, mibps: int) -> float | None:
        """USD an hour of one volume."""
        size, more_iops, more_mibps = self.gp3_gib_month, self.gp3_iops_month, self.gp3_mibps_month
        if size is None or more_iops is None or more_mibps is None:
            return None
        month = gib * size + max(iops - GP3_IOPS, 0) * more_iops + max(mibps - GP3_MIBPS, 0) * more_mibps
        return month / HOURS_A_MONTH

    def fsx(self, gib: int, throughput: int) -> float | None:
        """USD an hour of a file system; `throughput` in MB/s for each TiB."""
        month = self.fsx_gib_month.get(throughput)
        return None if month is None else gib * month / HOURS_A_MONTH


# p5e.48xlarge is sold as capacity blocks alone, so there is no price on demand.
_INSTANCES = {
    "g5.xlarge": 1.006,
    "g5.2xlarge": 1.212,
    "g5.4xlarge": 1.624,
    "g5.8xlarge": 2.448,
    "g5.12xlarge": 5.672,
    "g5.16xlarge": 4.096,
    "g5.24xlarge": 8.144,
    "g5.48xlarge": 16.288,
    "g6.xlarge": 0.8048,
    "g6.2xlarge": 0.9776,
    "g6.4xlarge": 1.3232,
    "g6.8xlarge": 2.0144,
    "g6.12xlarge": 4.6016,
    "g6.16xlarge": 3.3968,
    "g6.24xlarge": 6.6752,
    "g6.48xlarge": 13.3504,
    "g6e.xlarge": 1.861,
    "g6e.2xlarge": 2.24208,
    "g6e.4xlarge": 3.00424,
    "g6e.8xlarge": 4.52856,
    "g6e.12xlarge": 10.49264,
    "g6e.16xlarge": 7.57719,
    "g6e.24xlarge": 15.06559,
    "g6e.48xlarge": 30.13118,
    "p4d.24xlarge": 21.95764,
    "p4de.24xlarge": 27.44705,
    "p5.48xlarge": 55.04,
    "p5en.48xlarge": 63.296,
    "m7i.large": 0.1008,
    "m7i.xlarge": 0.2016,
    "m7i.2xlarge": 0.4032,
    "m7i.4xlarge": 0.8064,
    "m7i.8xlarge": 1.6128,
}

_OREGON = RegionPrices(
    as_of=AS_OF,
    instances=_INSTANCES,
    # A Kubernetes version in its standard support; 0.60 once it is in extended support.
    control_plane=0.10,
    nat_gateway=0.045,
    public_ipv4=0.005,
    interface_endpoint=0.01,
    gp3_gib_month=0.08,
    gp3_iops_month=0.005,
    gp3_mibps_month=0.04,
    fsx_gib_month={125: 0.145, 250: 0.210, 500: 0.340, 1000: 0.600},
)

# The three have the same prices for all that is listed here.
_REGIONS = {"us-west-2": _OREGON, "us-east-1": _OREGON, "us-east-2": _OREGON}


def prices_of(region: str) -> RegionPrices:
    """A region without a table has no prices at all: no factor from another one would be right."""
    return _REGIONS.get(region, RegionPrices(as_of=AS_OF))


def regions() -> list[str]:
    return list(_REGIONS)
