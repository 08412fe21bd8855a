"""PURE: what an existing VPC, or an existing EKS cluster's one, gives of what `infra.network.Network` would make."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Never

from infra.zones import NO_CONTROL_PLANE
from workload.errors import BadInputError


@dataclass(frozen=True, kw_only=True)
class SubnetFacts:
    """One subnet as EC2 describes it. `auto_public`: whether what is launched there gets a public address."""

    id: str
    zone: str
    zone_id: str
    vpc_id: str
    cidr: str
    free: int
    auto_public: bool

    def __str__(self) -> str:
        return f"{self.id} ({self.zone})"


@dataclass(frozen=True, kw_only=True)
class ExistingNetwork:
    """The attributes of Network; how its nodes reach registries is its owner's matter, so nothing waits for `egress`.

    `control_plane_subnets` is empty for a cluster that is there.
    """

    vpc_id: str
    private_subnets: Mapping[str, str]
    control_plane_subnets: list[str]
    gpu_subnet: str
    egress: list[Never] = field(default_factory=list)


def network_of_vpc(vpc_id: str, subnets: Sequence[SubnetFacts], *, gpu_zone: str, addresses: int) -> ExistingNetwork:
    """From vpcPrivateSubnets, in the order listed there: the first of a zone is the zone's, and the first two zones
    that can have one are the control plane's (EKS does not change those later).

    `addresses` are what GPU nodes still to be launched take in their subnet, and 0 where they are there: running nodes
    hold theirs already. Raises BadInputError, naming subnet and zone, for what cannot be used.
    """
    for subnet in subnets:
        if subnet.vpc_id != vpc_id:
            raise BadInputError(
                f"vpcPrivateSubnets: {subnet} belongs to {subnet.vpc_id}, not to vpcId {vpc_id}: "
                f"list subnets of {vpc_id}, or set vpcId to {subnet.vpc_id}"
            )
        if subnet.auto_public:
            raise BadInputError(
                f"vpcPrivateSubnets: {subnet} gives a public address to what is launched there: "
                "list a private one instead, or turn that off (map-public-ip-on-launch)"
            )
    chosen = _by_zone(subnets)
    control_plane = [subnet.id for subnet in chosen.values() if subnet.zone_id not in NO_CONTROL_PLANE][:2]
    gpu = _gpu_subnet("vpcPrivateSubnets", chosen, gpu_zone, addresses)
    if len(control_plane) < 2:
        unfit = [str(subnet) for subnet in chosen.values() if subnet.zone_id in NO_CONTROL_PLANE]
        because = f"; EKS puts none in the zone of {', '.join(unfit)}" if unfit else ""
        raise BadInputError(
            f"vpcPrivateSubnets: {_listed(chosen)} are in too few zones for a control plane, which needs two{because}: "
            "add a private subnet of another zone"
        )
    return _network(vpc_id, chosen, control_plane, gpu)


def network_of_cluster(
    cluster: str, vpc_id: str, subnets: Sequence[SubnetFacts], *, gpu_zone: str, addresses: int
) -> ExistingNetwork:
    """From an EKS cluster's own subnets: the private ones of them, the largest of a zone before others.

    `addresses` and errors as for `network_of_vpc`.
    """
    of_cluster = f"eksExistingCluster {cluster}"
    private = [subnet for subnet in subnets if not subnet.auto_public]
    if not private:
        raise BadInputError(
            f"{of_cluster}: none of its subnets ({', '.join(map(str, subnets))}) is private, and nodes get no public "
            "address here: add private subnets to the cluster"
        )
    by_size = sorted(private, key=lambda subnet: (ipaddress.IPv4Network(subnet.cidr).prefixlen, subnet.id))
    chosen = _by_zone(by_size)
    return _network(vpc_id, chosen, [], _gpu_subnet(of_cluster, chosen, gpu_zone, addresses))


def _by_zone(subnets: Sequence[SubnetFacts]) -> dict[str, SubnetFacts]:
    """The first of each zone. By place and never by what is free, which changes: nodes would be moved by it."""
    chosen: dict[str, SubnetFacts] = {}
    for subnet in subnets:
        chosen.setdefault(subnet.zone, subnet)
    return chosen


def _gpu_subnet(origin: str, chosen: Mapping[str, SubnetFacts], gpu_zone: str, addresses: int) -> SubnetFacts:
    gpu = chosen.get(gpu_zone)
    if gpu is None:
        raise BadInputError(
            f"{origin}: no private subnet is in gpuZone {gpu_zone}; there are {_listed(chosen)}: "
            f"set gpuZone to one of {', '.join(sorted(chosen))}, or add a private subnet of {gpu_zone}"
        )
    if gpu.free < addresses:
        raise BadInputError(
            f"{origin}: {gpu} has {gpu.free} free addresses, and the GPU nodes need {addresses}: "
            f"free some, take a larger private subnet of {gpu_zone}, or fewer nodes"
        )
    return gpu


def _network(
    vpc_id: str, chosen: Mapping[str, SubnetFacts], control_plane: list[str], gpu: SubnetFacts
) -> ExistingNetwork:
    return ExistingNetwork(
        vpc_id=vpc_id,
        private_subnets={zone: subnet.id for zone, subnet in chosen.items()},
        control_plane_subnets=control_plane,
        gpu_subnet=gpu.id,
    )


def _listed(chosen: Mapping[str, SubnetFacts]) -> str:
    return ", ".join(str(subnet) for subnet in chosen.values())
