"""PURE: what one region's stack of an environment has, as far as it decides where the GPU nodes go next."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
_NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
_FILE_SYSTEM = "aws:fsx/lustreFileSystem:LustreFileSystem"
_JOB = "pulumi-python:dynamic/workload:RayTrainJob"
# The name that infra/node_groups.py gives it: the system nodes have another.
_GPU_GROUP = "gpu-group"

Resources = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Held:
    """`zone` is the file's gpuZone, `things` how many AWS resources the state has, `reserved` the reservation's zone.

    `group` is "" without GPU nodes, "ready" where they run, "creating" or "failed"; `urn` is the group's.
    `one_zone`: a file system that no change of zone survives. `run`: the state has a training run.
    """

    stack: str
    region: str
    zone: str = ""
    things: int = 0
    reserved: str = ""
    group: str = ""
    urn: str = ""
    one_zone: bool = False
    run: bool = False

    @property
    def has_capacity(self) -> bool:
        return bool(self.reserved or self.group)


def held(stack: str, resources: Resources, *, region: str, zone: str, one_zone: bool = False) -> Held:
    """From a state as `pulumi stack export` has it."""
    reservation = next(_of(resources, _RESERVATION), None)
    group = next((one for one in _of(resources, _NODE_GROUP) if _name(one).endswith(_GPU_GROUP)), None)
    things = sum(1 for one in resources if one["type"].startswith("aws:") and one.get("id") and not one.get("external"))
    return Held(
        stack=stack,
        region=region,
        zone=zone,
        things=things,
        reserved=str(_said(reservation).get("availabilityZone", "")) if reservation else "",
        group=_status(group) if group else "",
        urn=str(group["urn"]) if group else "",
        one_zone=(one_zone and things > 0) or next(_of(resources, _FILE_SYSTEM), None) is not None,
        run=next(_of(resources, _JOB), None) is not None,
    )


def _status(group: Mapping[str, Any]) -> str:
    """An empty group has no nodes that a move could end. One whose creation was cancelled may still come."""
    said = _said(group)
    status = said.get("status") or ("CREATING" if group.get("initErrors") else "ACTIVE")
    if not int((said.get("scalingConfig") or {}).get("desiredSize") or 0):
        return ""
    ends = dict.fromkeys(("CREATE_FAILED", "DELETE_FAILED", "DELETING"), "failed")
    return {"CREATING": "creating", **ends}.get(str(status), "ready")


def _of(resources: Resources, token: str) -> Iterator[Mapping[str, Any]]:
    return (one for one in resources if one["type"] == token and not one.get("external") and not one.get("delete"))


def _name(resource: Mapping[str, Any]) -> str:
    return str(resource["urn"]).rpartition("::")[2]


def _said(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    return resource.get("outputs") or resource.get("inputs") or {}
