"""PURE: what the nodes are launched from, as the arguments of an aws.ec2.LaunchTemplate.

EKS adds the AMI, the node's start-up and its role; a template for it names no subnet, no profile and no spot options
(docs.aws.amazon.com/eks/latest/userguide/launch-templates.html). AL2023 needs no user data of ours: its own start-up
counts pods by the instance type, and libfabric is told to go without huge pages (FI_EFA_USE_HUGE_PAGE=0).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.instances import InstanceType
from workload.errors import BadInputError

ON_DEMAND, SPOT, CAPACITY_BLOCK = "on-demand", "spot", "capacity-block"
# As EKS calls them.
CAPACITY_TYPES = {ON_DEMAND: "ON_DEMAND", SPOT: "SPOT", CAPACITY_BLOCK: "CAPACITY_BLOCK"}
# Of a system node's disk: the Ray head runs there, of the same large image as the workers.
SYSTEM_THROUGHPUT, SYSTEM_IOPS = 500, 3000

Template = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Disk:
    """A gp3 root volume: GiB, MiB/s and operations a second."""

    gib: int
    throughput: int
    iops: int


def node_template(*, security_groups: Sequence[Any], disk: Disk, tags: Mapping[str, str]) -> Template:
    """A node with one ordinary interface. `tags` are put on what a provider's default tags don't reach."""
    return {
        "vpc_security_group_ids": list(security_groups),
        "block_device_mappings": block_devices(disk),
        # A pod is one hop further than its node: it must not be served the node's role. Pods have Pod Identity.
        "metadata_options": {"http_endpoint": "enabled", "http_tokens": "required", "http_put_response_hop_limit": 1},
        "tag_specifications": [
            {"resource_type": kind, "tags": dict(tags)} for kind in ("instance", "volume", "network-interface")
        ],
    }


def gpu_template(
    *,
    instance: InstanceType,
    security_groups: Sequence[Any],
    disk: Disk,
    tags: Mapping[str, str],
    market: str,
    reservation: Any | None,
    placement_group: Any | None,
) -> Template:
    """A GPU node, with EFA where the type has it. `reservation` is an id and `placement_group` a name, or None.

    Raises BadInputError where the market and the reservation exclude each other.
    """
    if market == SPOT and reservation is not None:
        raise BadInputError("spot nodes cannot be launched into a reservation: set capacity to none, or gpuMarket")
    template = node_template(security_groups=security_groups, disk=disk, tags=tags)
    if instance.efa_interfaces:
        # EC2 takes security groups either here or there.
        del template["vpc_security_group_ids"]
        template["network_interfaces"] = network_interfaces(instance, security_groups)
    if placement_group is not None:
        template["placement"] = {"group_name": placement_group}
    if reservation is not None:
        template["capacity_reservation_specification"] = {
            "capacity_reservation_target": {"capacity_reservation_id": reservation}
        }
    if market == CAPACITY_BLOCK:
        # EKS wants both in the template (userguide/capacity-blocks-mng.html), and then no type on the node group.
        template["instance_market_options"] = {"market_type": CAPACITY_BLOCK}
        template["instance_type"] = instance.name
    return template


def network_interfaces(instance: InstanceType, security_groups: Sequence[Any]) -> list[dict[str, Any]]:
    """One EFA interface a network card, as pulumi-eks has it: all cards' bandwidth, and addresses on card 0 alone.

    Card 0 must carry the node's own address (`efa`, device 0); the others take none (`efa-only`, device 1), so no
    subnet runs out of addresses and no route is ambiguous. This holds for every type of the table. On P5 it leaves the
    cards' share of ordinary traffic unused (AWS puts an ENA interface on every fourth card for that), which training
    does not need; P6-B300, whose card 0 has no EFA, is not in the table.
    """
    return [
        {
            "network_card_index": card,
            "device_index": 0 if card == 0 else 1,
            "interface_type": "efa" if card == 0 else "efa-only",
            "delete_on_termination": "true",
            "security_groups": list(security_groups),
            # EC2 refuses the question, whatever the answer, with more than one interface.
            **({"associate_public_ip_address": "false"} if instance.efa_interfaces == 1 else {}),
        }
        for card in range(instance.efa_interfaces)
    ]


def block_devices(disk: Disk) -> list[dict[str, Any]]:
    """The root volume of AL2023 is /dev/xvda."""
    return [
        {
            "device_name": "/dev/xvda",
            "ebs": {
                "volume_type": "gp3",
                "volume_size": disk.gib,
                "throughput": disk.throughput,
                "iops": disk.iops,
                "encrypted": "true",
                "delete_on_termination": "true",
            },
        }
    ]


def instance_types(instance: InstanceType, market: str) -> list[str] | None:
    """Of the node group; None where the template has the type."""
    return None if market == CAPACITY_BLOCK else [instance.name]


def scaling(nodes: int) -> dict[str, int]:
    """A group of a fixed size; EKS wants room for one node in an empty group."""
    return {"desired_size": nodes, "min_size": nodes, "max_size": max(nodes, 1)}
