"""PURE: how far an `up` has come, from the engine's events: what is under way, since when, and how long it takes.

Expected times: "create time: 10-15 minutes" for a control plane (EKS, getting started), and what public logs of
terraform-aws-eks, terraform-provider-aws and eksctl show: control plane 9 to 16 min, managed node groups 2 to 5,
add-ons 1 to 3, NAT gateways 1.5 to 2.5; FSx for Lustre "5 to 10 minutes" (its getting started page). Nobody measured
the last three here: chart, image and Ray.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Type (how its token ends), a part of the resource's name, how it is called, seconds it takes.
_PHASES = (
    ("ec2/capacityReservation:CapacityReservation", "", "capacity reservation", 5),
    ("ec2/natGateway:NatGateway", "", "NAT gateway", 110),
    ("aws:eks/cluster:Cluster", "eks", "control plane", 660),
    ("eks/nodeGroup:NodeGroup", "system", "system nodes", 180),
    ("eks/nodeGroup:NodeGroup", "gpu", "GPU nodes", 180),
    ("eks/addon:Addon", "", "add-on", 60),
    ("fsx/lustreFileSystem:LustreFileSystem", "", "FSx file system", 480),
    ("helm.sh/v3:Release", "", "chart", 30),
    ("infra:GpuNodesReady", "", "GPUs and EFA of the nodes", 90),
    ("infra:RayClusterReady", "", "Ray cluster, its image included", 300),
)
# What the engine says besides, whatever failed.
_NO_CAUSE = ("update failed", "Resource monitor has terminated")
_SEVERAL = ("eks/addon:Addon", "helm.sh/v3:Release")
_DOING = {
    "create": "",
    "create-replacement": "",
    "update": " (change)",
    "delete": " (end)",
    "delete-replaced": " (end)",
}


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something under way: `expected` seconds, None for a change or an end."""

    what: str
    began: float
    expected: float | None

    def line(self, now: float) -> str:
        about = "" if self.expected is None else f" of about {clock(self.expected)}"
        return f"{self.what} {clock(now - self.began)}{about}"


@dataclass(kw_only=True)
class Progress:
    """Reads events one by one; `errors` are what the engine called one, without the colours."""

    began: float
    under_way: dict[str, Step] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def read(self, event: Mapping[str, Any], now: float) -> list[str]:
        """Lines worth saying at once: what has begun, and what has ended."""
        if before := event.get("resourcePreEvent"):
            return self._begun(before["metadata"], now)
        if after := event.get("resOutputsEvent"):
            return self._ended(after["metadata"], now, "")
        if failed := event.get("resOpFailedEvent"):
            return self._ended(failed["metadata"], now, "failed")
        said = event.get("diagnosticEvent")
        if said and said.get("severity") == "error" and not said["message"].startswith(_NO_CAUSE):
            self.errors.append(str(said["message"]).strip())
        return []

    def line(self, now: float) -> str:
        """All that is under way, the one that takes longest foremost."""
        steps = sorted(self.under_way.values(), key=lambda step: -(step.expected or 0))
        return f"{clock(now - self.began)}  " + ("; ".join(step.line(now) for step in steps) or "between two steps")

    def _begun(self, told: Mapping[str, Any], now: float) -> list[str]:
        phase = phase_of(str(told["urn"]))
        if phase is None or told["op"] not in _DOING:
            return []
        what, seconds = phase
        made = told["op"] in ("create", "create-replacement")
        step = Step(what=f"{what}{_DOING[told['op']]}", began=now, expected=seconds if made else None)
        self.under_way[_key(told)] = step
        about = "" if step.expected is None else f", about {clock(step.expected)}"
        return [f"{clock(now - self.began)}  {step.what}: begun{about}"]

    def _ended(self, told: Mapping[str, Any], now: float, how: str) -> list[str]:
        if told["op"] in _DOING and not how:
            self.counts[told["op"]] = self.counts.get(told["op"], 0) + 1
        step = self.under_way.pop(_key(told), None)
        if step is None:
            return []
        return [f"{clock(now - self.began)}  {step.what}: {how or 'done'} after {clock(now - step.began)}"]


def phase_of(urn: str) -> tuple[str, float] | None:
    """What a resource is called and takes; None for those that take a second or two."""
    kind, _, name = urn.rpartition("::")
    for token, part, what, seconds in _PHASES:
        if kind.endswith(token) and part in name:
            return f"{what} {name}" if token in _SEVERAL else what, seconds
    return None


def clock(seconds: float) -> str:
    """As 4:05, from an hour on 1:04:05."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _key(told: Mapping[str, Any]) -> str:
    return f"{told['op']} {told['urn']}"
