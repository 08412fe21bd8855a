"""PURE: whether a reservation and a placement group that are there already fit the GPU nodes.

EC2 launches into a reservation only what matches it, its placement group included, and a managed node group without
capacity says nothing for half an hour: it is said before anything is made.
"""

from dataclasses import dataclass

from workload.errors import BadInputError

PLATFORM = "Linux/UNIX"
# What asks for a placement group of our own.
MADE = "cluster"


@dataclass(frozen=True, kw_only=True)
class HeldReservation:
    """As EC2 has it; `placement_group` is the ARN of the one it was made in, or empty."""

    id: str
    instance_type: str
    zone: str
    count: int
    platform: str
    placement_group: str


def problems(held: HeldReservation, *, instance_type: str, zone: str, count: int, placement_group: str) -> list[str]:
    """Sentences, each with what does not match and what to set; `placement_group` is that of the nodes, by name."""
    lines = []
    if held.instance_type != instance_type:
        lines.append(f"is for {held.instance_type}, the nodes are {instance_type}: set gpuInstanceType")
    if held.zone != zone:
        lines.append(f"is in zone {held.zone}, the nodes are in {zone}: set gpuZone")
    if held.count < count:
        lines.append(f"is for {held.count} instances, the nodes are {count}: set gpuNodes, or enlarge it")
    if held.platform != PLATFORM:
        lines.append(f"is for platform {held.platform}, nodes are {PLATFORM}: make another")
    group = held.placement_group.rpartition("/")[2]
    if group != placement_group:
        theirs, ours = (f"in placement group {name}" if name else "in none" for name in (group, placement_group))
        lines.append(f"is {theirs}, the nodes are {ours}: set gpuPlacementGroup to {group or 'empty'}")
    return [f"reservation {held.id} {line}" for line in lines]


def check_held(held: HeldReservation, *, instance_type: str, zone: str, count: int, placement_group: str) -> str:
    """The reservation's id. Raises BadInputError with every mismatch."""
    found = problems(held, instance_type=instance_type, zone=zone, count=count, placement_group=placement_group)
    if found:
        raise BadInputError("; ".join(found))
    return held.id


def check_combination(*, held: str, placement_group: str) -> None:
    """Raises BadInputError for a group that is yet to be made: a reservation cannot be moved into it."""
    if held and placement_group == MADE:
        raise BadInputError(
            f"reservation {held} was made before gpuPlacementGroup {MADE}, so it cannot be in that group: set "
            "gpuPlacementGroup to the group it was made in, or empty if there is none"
        )


def check_cluster_group(name: str, strategy: str, arn: str) -> str:
    """The ARN of a group that can hold a reservation. Raises BadInputError for one of another strategy."""
    if strategy != "cluster":
        raise BadInputError(
            f"placement group {name} has strategy {strategy}, and only one of strategy cluster can hold a reservation: "
            "set gpuPlacementGroup to another, or capacity to none"
        )
    return arn
