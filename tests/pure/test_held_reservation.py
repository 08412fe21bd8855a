"""Whether what is held already fits the nodes: every mismatch is named, with the setting that ends it."""

import dataclasses
from typing import Any

import pytest

from infra.held_reservation import HeldReservation, check_cluster_group, check_combination, check_held, problems
from workload.errors import BadInputError

HELD = HeldReservation(
    id="cr-1", instance_type="g6.12xlarge", zone="us-west-2a", count=2, platform="Linux/UNIX", placement_group=""
)
NODES: dict[str, Any] = {"instance_type": "g6.12xlarge", "zone": "us-west-2a", "count": 2, "placement_group": ""}
ARN = "arn:aws:ec2:us-west-2:123456789012:placement-group/theirs"


def test_a_reservation_that_fits_is_taken() -> None:
    assert check_held(HELD, **NODES) == "cr-1"
    assert check_held(dataclasses.replace(HELD, count=5), **NODES) == "cr-1", "others may have the rest"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"instance_type": "g6.24xlarge"}, "g6.24xlarge, the nodes are g6.12xlarge: set gpuInstanceType"),
        ({"zone": "us-west-2b"}, "us-west-2b, the nodes are in us-west-2a: set gpuZone"),
        ({"count": 1}, "is for 1 instances, the nodes are 2: set gpuNodes"),
        ({"platform": "Windows"}, "Windows"),
    ],
)
def test_what_does_not_match_is_named_with_its_setting(change: dict[str, Any], said: str) -> None:
    [line] = problems(dataclasses.replace(HELD, **change), **NODES)
    assert "cr-1" in line
    assert said in line


@pytest.mark.parametrize(
    ("held", "nodes", "said"),
    [
        ("", "", None),
        (ARN, "theirs", None),
        (ARN, "", "is in placement group theirs, the nodes are in none: set gpuPlacementGroup to theirs"),
        ("", "ours", "is in none, the nodes are in placement group ours: set gpuPlacementGroup to empty"),
        (ARN, "ours", "is in placement group theirs, the nodes are in placement group ours"),
    ],
)
def test_reservation_and_nodes_are_in_the_same_placement_group(held: str, nodes: str, said: str | None) -> None:
    found = problems(dataclasses.replace(HELD, placement_group=held), **{**NODES, "placement_group": nodes})
    assert len(found) == (1 if said else 0)
    assert not said or said in found[0]


def test_all_mismatches_are_said_at_once() -> None:
    with pytest.raises(BadInputError, match=r"gpuInstanceType.*gpuZone"):
        check_held(dataclasses.replace(HELD, instance_type="p4d.24xlarge", zone="us-west-2b"), **NODES)


def test_a_held_reservation_is_in_no_group_that_is_yet_to_be_made() -> None:
    with pytest.raises(BadInputError, match="gpuPlacementGroup"):
        check_combination(held="cr-1", placement_group="cluster")
    for held, group in (("", "cluster"), ("cr-1", ""), ("cr-1", "theirs"), ("", "")):
        check_combination(held=held, placement_group=group)


def test_only_a_cluster_placement_group_can_hold_a_reservation() -> None:
    assert check_cluster_group("theirs", "cluster", ARN) == ARN
    with pytest.raises(BadInputError, match="theirs has strategy spread"):
        check_cluster_group("theirs", "spread", ARN)
