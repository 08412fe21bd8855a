"""Node groups of the stand-in account bring nodes into a bed and take them away again."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from tools.bed import Bed
from tools.standin import bed_nodes
from tools.standin.bed_keeper import described

pytestmark = pytest.mark.full

GROUP: dict[str, Any] = {
    "cluster": "ray-dev",
    "name": "stand-in",
    "instance_type": "g6.8xlarge",
    "count": 2,
    "zone": "us-west-2b",
    "labels": {"role": "stand-in"},
    "taints": [{"key": "stand-in", "value": "true", "effect": "NO_SCHEDULE"}],
    "efa": 1,
}


@pytest.fixture
def there(bed: Bed) -> Iterator[dict[str, Any]]:
    there = dataclasses.asdict(described(bed))
    yield there
    bed_nodes.leave(there, GROUP)


def nodes(bed: Bed) -> dict[str, dict[str, Any]]:
    found = bed.api.list("/api/v1/nodes?labelSelector=eks.amazonaws.com%2Fnodegroup%3Dstand-in")
    return {node["metadata"]["name"]: node for node in found}


def test_a_group_has_as_many_nodes_as_it_says_and_keeps_those_it_has(bed: Bed, there: dict[str, Any]) -> None:
    first = bed_nodes.join(there, GROUP)
    assert set(nodes(bed)) == set(first)
    assert len(first) == 2
    assert bed_nodes.join(there, GROUP) == first
    more = bed_nodes.join(there, {**GROUP, "count": 3})
    assert set(first) < set(more)
    assert len(bed_nodes.join(there, {**GROUP, "count": 1})) == 1
    assert bed_nodes.join(there, {**GROUP, "count": 0}) == []
    assert nodes(bed) == {}


def test_labels_change_in_place_and_a_new_template_brings_new_nodes(bed: Bed, there: dict[str, Any]) -> None:
    first = bed_nodes.join(there, {**GROUP, "template": "1"})
    bed_nodes.join(there, {**GROUP, "template": "1", "labels": {"role": "other"}})
    assert {node["metadata"]["labels"]["role"] for node in nodes(bed).values()} == {"other"}
    assert set(nodes(bed)) == set(first)
    assert not set(bed_nodes.join(there, {**GROUP, "template": "2"})) & set(first)
    assert len(nodes(bed)) == 2


def test_leaving_twice_is_no_error(bed: Bed, there: dict[str, Any]) -> None:
    bed_nodes.join(there, GROUP)
    bed_nodes.leave(there, GROUP)
    bed_nodes.leave(there, GROUP)
    assert nodes(bed) == {}
