"""What is in the state is what is priced: before, while and after an `up` changes it, and after AWS has."""

from datetime import UTC, datetime
from typing import Any

import pytest

from efactl.status.price import Price, price
from infra.prices import AS_OF, RegionPrices
from tests.support.known_stack import custom

AT = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
BEFORE = datetime(2026, 12, 1, 17, 59, tzinfo=UTC)
PRICES = RegionPrices(
    as_of=AS_OF,
    instances={"p5": 50.0, "m7i": 0.2},
    control_plane=0.1,
    gp3_gib_month=0.73,
    gp3_iops_month=0.0,
    gp3_mibps_month=0.0,
)
CLUSTER = custom("aws:eks/cluster:Cluster", {})
SCHEDULE = custom("aws:scheduler/schedule:Schedule", {"scheduleExpression": "at(2026-12-01T18:00:00)"})


def group(nodes: int, *, name: str = "ray-gpu-group", kind: str = "p5", **outputs: Any) -> dict[str, Any]:
    held = {"scalingConfig": {"desiredSize": float(nodes)}, "instanceTypes": [kind], **outputs}
    return custom("aws:eks/nodeGroup:NodeGroup", {"capacityType": "ON_DEMAND", **held}) | {"urn": f"urn::{name}"}


def reservation(count: int = 2, **more: Any) -> dict[str, Any]:
    held = {"instanceType": "p5", "instanceCount": float(count), "endDate": "2026-12-01T18:00:00Z"}
    return custom("aws:ec2/capacityReservation:CapacityReservation", held, **more)


def priced(*resources: dict[str, Any], now: datetime = BEFORE) -> Price:
    return price(resources, PRICES, now=now)


@pytest.mark.parametrize(
    ("state", "usd"),
    [
        ([], 0.0),
        ([CLUSTER], 0.1),
        ([CLUSTER, reservation()], 100.1),
        ([CLUSTER, reservation(), group(2)], 100.1),
        ([CLUSTER, reservation(), group(1)], 100.1),
        ([CLUSTER, reservation(), group(0)], 100.1),
        ([CLUSTER, reservation(1), reservation(1), group(2)], 100.1),
        ([CLUSTER, group(2)], 100.1),
        ([CLUSTER, group(0), group(2, name="ray-system-group", kind="m7i")], 0.5),
        ([CLUSTER, reservation(external=True)], 0.1),
        ([CLUSTER, {**group(2), "pendingReplacement": True}], 0.1),
        ([CLUSTER, {**group(2, name="ray-system-group", kind="m7i"), "delete": True}], 0.5),
    ],
)
def test_nodes_bill_once_and_a_reservation_without_them_too(state: list[dict[str, Any]], usd: float) -> None:
    assert priced(*state) == Price(hourly_usd=pytest.approx(usd), lacks=(), notes=())  # type: ignore[arg-type]


def test_nodes_bill_with_their_disks() -> None:
    template = custom(
        "aws:ec2/launchTemplate:LaunchTemplate", {"blockDeviceMappings": [{"ebs": {"volumeSize": 1000.0}}]}, id="lt-1"
    )
    nodes = group(2, launchTemplate={"id": "lt-1", "version": "1"})
    assert priced(template, nodes).hourly_usd == pytest.approx(102)


def test_what_ended_the_nodes_ended_their_price_though_the_state_has_them() -> None:
    state = [CLUSTER, SCHEDULE, reservation(), group(2)]
    assert priced(*state).hourly_usd == pytest.approx(100.1)
    over = priced(*state, now=AT)
    assert over.hourly_usd == pytest.approx(0.1)
    assert over.notes == (
        "ttlUntil has passed: the GPU nodes that the state has are not counted",
        "the reservation's end has passed: it is not counted",
    )


def test_nodes_go_on_after_their_reservation() -> None:
    assert priced(CLUSTER, reservation(), group(2), now=AT).hourly_usd == pytest.approx(100.1)


@pytest.mark.parametrize(
    ("outputs", "usd", "lacks"),
    [
        ({"capacityType": "SPOT"}, 0.1, ("2 x p5, GPU nodes (spot)",)),
        ({"instanceTypes": ["p6"]}, 0.1, ("2 x p6, GPU nodes",)),
        ({"capacityType": "CAPACITY_BLOCK", "instanceTypes": None}, 0.1, ()),
    ],
)
def test_what_has_no_price_is_named(outputs: dict[str, Any], usd: float, lacks: tuple[str, ...]) -> None:
    found = priced(CLUSTER, group(2, **outputs))
    assert found.hourly_usd == pytest.approx(usd)
    assert found.lacks == lacks


def test_a_region_without_prices_is_not_taken_for_free() -> None:
    found = price([CLUSTER], RegionPrices(as_of=AS_OF), now=BEFORE)
    assert (found.hourly_usd, found.lacks) == (None, ("1 x EKS control plane",))
