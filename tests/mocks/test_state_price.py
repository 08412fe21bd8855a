"""The price of what is in a state, against the estimate of what the same settings declare."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pulumi
import pytest

from efactl.status.price import price
from infra.cost import estimate
from infra.prices import prices_of
from infra.zones import choose_zones
from tests.mocks.recording import Recording
from tests.mocks.test_eks_ray import declared, facts
from tests.pure.test_eks_settings import load

NOW = datetime(2026, 11, 29, tzinfo=UTC)
# Made by a component of another SDK, which the recording does not see into.
CONTROL_PLANE = {"type": "aws:eks/cluster:Cluster", "urn": "urn::inner", "custom": True, "outputs": {}}


@pytest.fixture(autouse=True)
def empty_config() -> Iterator[None]:
    yield
    pulumi.runtime.set_all_config({}, [])


def in_state(recording: Recording) -> list[dict[str, Any]]:
    made = [
        {
            "type": one.type,
            "urn": f"urn:pulumi:test::ray-train-efa::{one.type}::{one.name}",
            "id": f"{one.name}-id",
            "custom": one.request.custom,
            "outputs": dict(one.inputs),
        }
        for one in recording
    ]
    return [*made, CONTROL_PLANE]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"gpuNodes": "0"},
        {"gpuMarket": "spot", "capacity": "none"},
        {"vpcNat": "per-zone", "systemNodes": "3", "gpuDiskIops": "6000", "gpuDiskThroughput": "700"},
        {"vpcEndpoints": ["s3", "ecr"]},
        {"eksStorage": "fsx"},
    ],
    ids=str,
)
def test_a_stack_that_is_up_costs_what_its_estimate_says(settings: dict[str, Any]) -> None:
    given = load(**settings)
    reserve = given.capacity.reserves(nodes=given.gpu.nodes, now=NOW)
    zones = choose_zones(facts(given).zones, gpu_zone=given.gpu.zone, gpu_type=given.gpu.instance.name, given=())
    estimated = estimate(given, reserved=reserve, zones=zones.all)
    found = price(in_state(declared(reserve=reserve, **settings)), prices_of(given.aws.region), now=NOW)
    assert found.hourly_usd == pytest.approx(estimated.total, abs=1e-3)
    assert found.lacks == estimated.lacks
    assert found.notes == ()
