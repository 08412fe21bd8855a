"""What of a stack is still in an account: asked of AWS itself by tag and by name, whatever a state file says."""

import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from capacity import audit_ec2, audit_services
from capacity.answers import Missing
from capacity.at_once import AtOnce
from capacity.aws import AS_ENVIRONMENT, Access
from capacity.left import KINDS, Left, in_order
from capacity.looking import NAME_TAG, Looking

__all__ = ["NAME_TAG", "Left", "audit"]

Look = Callable[[Looking], Iterator[Left]]

LOOKS: Mapping[str, Look] = {
    "node group": audit_services.node_groups,
    "EKS control plane": audit_services.clusters,
    "instance": audit_ec2.instances,
    "capacity reservation": audit_ec2.reservations,
    "load balancer": audit_services.load_balancers,
    "classic load balancer": audit_services.classic_load_balancers,
    "FSx file system": audit_services.file_systems,
    "NAT gateway": audit_ec2.nat_gateways,
    "public address": audit_ec2.addresses,
    "VPC endpoint": audit_ec2.endpoints,
    "volume": audit_ec2.volumes,
    "bucket": audit_services.buckets,
    "log group": audit_services.log_groups,
    "KMS key": audit_services.keys,
    "network interface": audit_ec2.interfaces,
    "placement group": audit_ec2.placement_groups,
    "VPC": audit_ec2.networks,
}
assert tuple(LOOKS) == KINDS


def audit(
    regions: Iterable[str],
    tags: Mapping[str, str],
    *,
    kept: Collection[str] = (),
    clusters: Collection[str] = (),
    access: Access = AS_ENVIRONMENT,
) -> list[Left]:
    """Everything with all of `tags`, NAME_TAG among them, and what AWS and EKS made beside it; free things too.

    `kept` are kinds that a setting keeps (bucket, FSx file system); `clusters` are existing ones in which the stack had
    node groups. A kind that AWS gives no answer about is in the list as not looked at; nothing is raised for it.
    """
    places = [
        Looking(region=region, tags=tags, clusters=clusters, kept=kept, access=access)
        for region in dict.fromkeys(regions)
    ]
    # Threads that Ctrl-C leaves behind, also where a region hangs.
    at_once = AtOnce(math.inf)
    for at in places:
        at_once.expect(at.region, LOOKS)
        for kind in LOOKS:
            at_once.run(functools.partial(at_once.ask, at.region, kind, functools.partial(_looked, at, kind)))
    while at_once.waiting():
        at_once.wait(seconds=0.2)
    return in_order(one for key, told in at_once.answers.items() for one in _found(key, told))


def _found(key: tuple[str, str], told: list[Left] | Missing) -> list[Left]:
    region, kind = key
    return [Left(region=region, kind=kind, unknown=str(told))] if isinstance(told, Missing) else told


def _looked(at: Looking, kind: str) -> list[Left]:
    return list(LOOKS[kind](at))
