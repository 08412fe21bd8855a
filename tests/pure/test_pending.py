"""What a killed `pulumi` was making comes back into the state by its name or tag."""

from typing import Any

from capacity.pending import Adopted, Tagged, creating, recovery, repaired

URN = "urn:pulumi:dev::ray-train-efa::"


def made(token: str, called: str, /, **inputs: Any) -> dict[str, Any]:
    return {"urn": f"{URN}{token}::{called}", "type": token, "custom": True, "inputs": inputs}


GROUP = made("aws:eks/nodeGroup:NodeGroup", "gpu", clusterName="ray-dev", nodeGroupName="ray-dev-gpu")
RESERVATION = made("aws:ec2/capacityReservation:CapacityReservation", "capacity", tags={"Name": "ray-dev-gpu"})
EIP = made("aws:ec2/eip:Eip", "nat", tags={"Name": "ray-dev-nat-us-west-2b"})
ROUTE = made("aws:ec2/route:Route", "out", routeTableId="rtb-1", destinationCidrBlock="0.0.0.0/0")
TEMPLATE = made("aws:ec2/launchTemplate:LaunchTemplate", "gpu", name="ray-gpu-template-1a2b")


def test_only_creations_in_aws_are_open_questions() -> None:
    release = made("kubernetes:helm.sh/v3:Release", "kuberay")
    deployment = {
        "pending_operations": [
            {"type": "creating", "resource": GROUP},
            {"type": "creating", "resource": release},
            {"type": "deleting", "resource": RESERVATION},
        ]
    }
    assert creating(deployment) == [GROUP]
    assert creating({}) == []


def test_a_thing_with_a_name_is_known_by_it_and_others_by_their_tags() -> None:
    there = [
        Tagged(kind="capacity-reservation", id="cr-new", name="ray-dev-gpu"),
        Tagged(kind="capacity-reservation", id="cr-old", name="ray-dev-gpu"),
        Tagged(kind="elastic-ip", id="eipalloc-1", name="ray-dev-nat-us-west-2b"),
        Tagged(kind="elastic-ip", id="eipalloc-2", name="ray-dev-nat-us-west-2a"),
        Tagged(kind="launch-template", id="lt-1", name="ray-gpu-template-1a2b"),
    ]
    known = [{**RESERVATION, "id": "cr-old"}]
    found = recovery([GROUP, RESERVATION, EIP, TEMPLATE], known, there)
    assert found.adopted == (
        Adopted(urn=GROUP["urn"], id="ray-dev:ray-dev-gpu"),
        Adopted(urn=RESERVATION["urn"], id="cr-new"),
        Adopted(urn=EIP["urn"], id="eipalloc-1"),
        Adopted(urn=TEMPLATE["urn"], id="lt-1"),
    )


def test_what_was_never_made_is_not_looked_for_twice_and_what_has_no_name_is_undone() -> None:
    found = recovery([RESERVATION, ROUTE], [], [])
    assert found.adopted == ()
    assert found.undone == ((ROUTE["type"], ROUTE["inputs"]),)


def test_two_that_look_alike_are_told_and_not_guessed() -> None:
    there = [Tagged(kind="capacity-reservation", id=f"cr-{number}", name="ray-dev-gpu") for number in (1, 2)]
    found = recovery([RESERVATION], [], there)
    assert (found.adopted, found.unclear) == ((), (RESERVATION["urn"],))


def test_what_a_service_lists_without_its_name_is_taken_where_it_is_the_only_one() -> None:
    key = made("aws:kms/key:Key", "secrets", tags={"Name": "ray-dev"})
    there = [Tagged(kind="KMS key", id="old", name=None), Tagged(kind="KMS key", id="new", name=None)]
    assert recovery([key], [{**key, "id": "old"}], there).adopted == (Adopted(urn=key["urn"], id="new"),)


def test_the_repaired_state_has_it_last_and_what_it_replaces_on_its_way_out() -> None:
    old = {**RESERVATION, "id": "cr-old"}
    exported: dict[str, Any] = {
        "version": 3,
        "deployment": {
            "resources": [old, GROUP],
            "pending_operations": [{"type": "creating", "resource": RESERVATION}],
        },
    }
    found = recovery([RESERVATION], [old], [Tagged(kind="capacity-reservation", id="cr-new", name="ray-dev-gpu")])
    after = repaired(exported, found)["deployment"]
    assert "pending_operations" not in after
    assert after["resources"] == [
        {**old, "delete": True},
        GROUP,
        {**RESERVATION, "id": "cr-new", "outputs": RESERVATION["inputs"]},
    ]
    assert "pending_operations" in exported["deployment"], "the export itself stays as it is"
