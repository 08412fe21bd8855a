"""The settings that limit what a stack costs: what they come to, and what cannot be."""

from collections.abc import Iterator
from typing import Any

import pulumi
import pytest

from infra.cost import check_spending, estimate
from infra.eks_settings import EksSettings
from infra.settings import SettingsError
from tests.pure.test_eks_settings import load
from workload.errors import BadInputError

EARLY, LATE = "2026-12-01T18:00:00Z", "2026-12-05T18:00:00Z"
EXISTING = {"eksExistingCluster": "shared", "gpuExistingGroup": "gpus", "capacity": "none"}


@pytest.fixture(autouse=True)
def empty_config() -> Iterator[None]:
    yield
    pulumi.runtime.set_all_config({}, [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ttlUntil": "4h"}, "ttlUntil: '4h' is not a time in UTC like 2026-12-01T18:00:00Z"),
        ({"ttlUntil": "2026-02-30T00:00:00Z"}, "ttlUntil: '2026-02-30T00:00:00Z' is not a time in UTC"),
        ({"ttlUntil": EARLY, **EXISTING}, "is not for gpuExistingGroup gpus, whose size is its owner's"),
        ({"gpuScaleToZeroAfterJob": True, **EXISTING}, "gpuScaleToZeroAfterJob: 'true' is not for gpuExistingGroup"),
        ({"gpuScaleToZeroAfterJob": "later"}, "gpuScaleToZeroAfterJob: 'later' is none of true, false"),
        ({"maxHourlyUsd": "0"}, "maxHourlyUsd: '0' must be a finite number above 0"),
        ({"maxHourlyUsd": "$10"}, "maxHourlyUsd: '$10' is not a number"),
        ({"gpuFallbackZones": ["us-east-2a"]}, "gpuFallbackZones: 'us-east-2a' is not a zone of aws:region us-west-2"),
        ({"gpuFallbackZones": ["us-west-2b"]}, "gpuFallbackZones: 'us-west-2b' is gpuZone itself"),
        ({"gpuFallbackZones": ["b"]}, "gpuFallbackZones: 'b' is not an availability zone like us-west-2a"),
        ({"gpuFallbackZones": ["us-west-2a", "us-west-2a"]}, "names a zone twice"),
        (
            {"gpuFallbackZones": ["us-west-2c"], "vpcZones": ["us-west-2a", "us-west-2b"]},
            "gpuFallbackZones: 'us-west-2c' is not among vpcZones us-west-2a, us-west-2b",
        ),
    ],
)
def test_a_guard_that_cannot_hold_is_refused_with_its_value(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(**changes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({"capacityUntil": LATE}, LATE),
        ({"capacityUntil": LATE, "ttlUntil": EARLY}, EARLY),
        ({"capacityUntil": EARLY, "ttlUntil": LATE}, EARLY),
        ({"capacityUntil": "", "ttlUntil": EARLY}, EARLY),
    ],
)
def test_what_reserves_the_nodes_ends_no_later_than_they_do(changes: dict[str, Any], ends: str) -> None:
    assert load(**changes).capacity.until == ends


def test_fall_back_zones_are_kept_in_their_order() -> None:
    assert load(gpuFallbackZones=["us-west-2c", "us-west-2a"]).gpu.fallback_zones == ("us-west-2c", "us-west-2a")


def test_a_stack_within_its_limit_passes_and_one_above_it_is_told_what_it_would_cost() -> None:
    stack = load()
    cost = estimate(stack, reserved=True)
    check_spending(cost, None)
    check_spending(cost, cost.total)
    with pytest.raises(BadInputError) as caught:
        check_spending(cost, 5)
    said = str(caught.value)
    assert f"would cost ${cost.total:.2f} an hour" in said
    assert "maxHourlyUsd is 5: nothing was made" in said
    assert "2 x g6.12xlarge, GPU nodes" in said, "line by line"
    [suggested] = [float(part.split()[0]) for part in said.split("set it to ")[1:]]
    check_spending(cost, suggested)


def test_spot_counts_as_no_more_than_its_price_on_demand() -> None:
    spot = load(gpuMarket="spot", capacity="none")
    on_demand = estimate(load(), reserved=False).total
    check_spending(estimate(spot, reserved=False), on_demand)
    with pytest.raises(BadInputError, match="would cost up to"):
        check_spending(estimate(spot, reserved=False), on_demand - 1)


def test_a_limit_is_no_limit_where_a_price_is_not_known_so_the_stack_is_refused() -> None:
    elsewhere = load(aws_region="eu-north-1", gpuZone="eu-north-1a")
    cost = estimate(elsewhere, reserved=True)
    check_spending(cost, None)
    with pytest.raises(
        BadInputError, match=r"maxHourlyUsd 500 cannot be held: no price is known in eu-north-1 of 2 x g6"
    ):
        check_spending(cost, 500)


def test_without_its_nodes_a_stack_costs_what_it_costs_with_none() -> None:
    settings: EksSettings = load()
    given_back = estimate(settings.without_gpu_nodes(), reserved=False)
    assert given_back.total == estimate(load(gpuNodes=0), reserved=False).total
