"""How long a stack's bring-up took, by its state."""

from typing import Any

from efactl.bring_up_times import steps_of


def made(token: str, name: str, minute: float, *needs: str, **more: Any) -> dict[str, Any]:
    moment = f"2026-11-30T10:{int(minute):02}:{int(minute % 1 * 60):02}Z"
    return {
        "type": token,
        "urn": f"urn:pulumi:dev::p::{token}::{name}",
        "created": moment,
        "dependencies": needs,
        **more,
    }


RESERVATION = made("aws:ec2/capacityReservation:CapacityReservation", "ray-reservation-capacity", 0.1)
CLUSTER = made("aws:eks/cluster:Cluster", "ray-cluster-eks", 11, RESERVATION["urn"])
ADDON = made("aws:eks/addon:Addon", "vpc-cni", 12.5, CLUSTER["urn"])
GROUP = made(
    "aws:eks/nodeGroup:NodeGroup",
    "ray-gpu-group",
    16,
    propertyDependencies={"clusterName": [CLUSTER["urn"]], "x": None},
)
STACK = {"type": "pulumi:pulumi:Stack", "urn": "urn:pulumi:dev::p::pulumi:pulumi:Stack::p-dev"}


def test_a_step_begins_when_the_last_of_what_it_needs_is_there() -> None:
    steps = steps_of([GROUP, STACK, ADDON, CLUSTER, RESERVATION])
    assert [(one["name"], one["seconds"]) for one in steps] == [
        ("capacity reservation", 0.0),
        ("control plane", 654.0),
        ("add-on vpc-cni", 90.0),
        ("GPU nodes", 300.0),
    ]
    assert steps[1]["modelSeconds"] == 660


def test_what_takes_a_second_or_was_there_before_is_no_step() -> None:
    read = {**CLUSTER, "external": True}
    role = made("aws:iam/role:Role", "ray-node", 1)
    old = {**GROUP, "delete": True}
    broken = {**ADDON, "created": "yesterday"}
    assert steps_of([read, role, old, broken, STACK]) == []
    assert steps_of([]) == []
