"""PURE: how a VPC's addresses are divided between zones, and how many of them nodes need.

A zone's place follows from the letter of its name, so no subnet moves when zones come, go or change their order: seven
eighths of the VPC are the private subnets of zones a to g, the last eighth has their public ones.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workload.errors import BadInputError

_LETTERS = "abcdefg"
_ZONE = re.compile(r"[a-z0-9-]+-\d([a-z])")
_SMALLEST_PREFIX = 28  # VPC's own limit for a subnet
_KEPT_BY_VPC = 5  # addresses of each subnet
_CONTROL_PLANE = 6  # free addresses that EKS asks for in each of its subnets
# No type here takes more on one interface, and the CNI is told to take far fewer than all of it (infra.core_addons); in
# a cluster of others it may take two. Interfaces of the kind efa-only take none.
_ADDRESSES_PER_NODE = 50


@dataclass(frozen=True, kw_only=True)
class SubnetPlan:
    """CIDRs by zone."""

    private: Mapping[str, str]
    public: Mapping[str, str]


def plan_subnets(cidr: str, zones: Sequence[str]) -> SubnetPlan:
    """An eighth of the VPC for each private subnet, a 64th for each public one (which holds a NAT gateway alone).

    Raises BadInputError for a VPC too small for that, and for a zone that is not a region's own (us-west-2a).
    """
    network = ipaddress.IPv4Network(cidr)
    if network.prefixlen + 6 > _SMALLEST_PREFIX:
        raise BadInputError(f"vpcCidr {cidr} is too small to divide: take a /{_SMALLEST_PREFIX - 6} or larger")
    *private, last = network.subnets(prefixlen_diff=3)
    public = list(last.subnets(prefixlen_diff=3))
    return SubnetPlan(
        private={zone: str(private[_place(zone)]) for zone in zones},
        public={zone: str(public[_place(zone)]) for zone in zones},
    )


def _place(zone: str) -> int:
    match = _ZONE.fullmatch(zone)
    if not match or match[1] not in _LETTERS:
        raise BadInputError(f"zone '{zone}' has no place in the network: its name must end in a letter from a to g")
    return _LETTERS.index(match[1])


def addresses_for(nodes: int) -> int:
    """Addresses that a subnet needs for so many GPU nodes and their pods, the control plane's own among them."""
    return nodes * _ADDRESSES_PER_NODE + _CONTROL_PLANE


def check_room(cidr: str, *, nodes: int) -> None:
    """Raises BadInputError where one zone's part of a VPC made here is too small for the GPU nodes."""
    network, needed = ipaddress.IPv4Network(cidr), addresses_for(nodes)
    room = _room(network.prefixlen)
    if room >= needed:
        return
    enough = [prefix for prefix in range(16, network.prefixlen) if _room(prefix) >= needed]
    what = f"take a /{enough[-1]} or larger" if enough else "no VPC has that in one zone: take fewer nodes"
    raise BadInputError(f"vpcCidr {cidr} has {room} addresses for a zone, and {nodes} GPU nodes need {needed}: {what}")


def _room(prefix: int) -> int:
    return int(2 ** max(32 - prefix - 3, 0)) - _KEPT_BY_VPC
