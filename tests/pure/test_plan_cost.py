"""What a bring-up's plan counts for a place is what the stack of that place will count for itself."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pulumi
import pytest

from capacity.plan_cost import around_nodes, at_most
from capacity.pulumi_cli import PulumiCli
from efactl import bring_up_plan, environment, stack
from efactl.bring_up_plan import Limit, Priced
from efactl.stack import Stack
from infra import cost
from tests.pure.test_bring_up_parts import WEST
from tests.pure.test_eks_settings import load
from workload.errors import BadInputError


@pytest.fixture(autouse=True)
def no_settings_left() -> Iterator[None]:
    yield
    pulumi.runtime.set_all_config({}, [])


def example(**changes: Any) -> Callable[[str], Any]:
    """Settings of Pulumi.dev.yaml with changes, as a bring-up reads them."""
    dev = Stack("dev")
    return lambda key: changes[key] if key in changes else dev.config(key)


def test_what_stands_around_the_nodes_is_counted_where_its_prices_are_known() -> None:
    gpu_disks = 2 * (200 * 0.08 + 1000 * 0.005 + 475 * 0.04) / 730
    system = 0.2016 + (150 * 0.08 + 375 * 0.04) / 730
    assert around_nodes(example(), "us-west-2") == pytest.approx(system + 0.10 + 0.05 + gpu_disks, abs=1e-4)
    assert around_nodes(example(), "eu-west-1") is None
    assert around_nodes(example(eksExistingCluster="mine"), "us-west-2") == pytest.approx(gpu_disks, abs=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gpuMarket": "spot", "capacity": "none"},
        {"gpuDiskIops": 9000, "gpuDiskThroughput": 1000, "systemNodes": 3},
        {"eksStorage": "fsx", "fsxGiB": 2400, "fsxThroughput": 500},
        {"vpcNat": "per-zone", "vpcEndpoints": ["s3", "ecr"]},
        {"vpcNat": "per-zone", "vpcEndpoints": '["ecr"]', "vpcZones": ["us-west-2a", "us-west-2b"]},
        {"vpcId": "vpc-0123456789abcdef0", "vpcPrivateSubnets": ["subnet-0123456789abcdef0"]},
        {"eksExistingCluster": "mine", "gpuExistingGroup": "theirs", "capacity": "none"},
    ],
)
def test_the_limit_that_the_plan_takes_a_place_by_is_the_stacks_own(changes: dict[str, Any]) -> None:
    zones = changes.get("vpcZones") or ("us-west-2a", "us-west-2b", "us-west-2c")
    counted = cost.estimate(load(**changes), reserved=False, zones=zones)
    most = at_most(example(**changes), "us-west-2")
    assert most is not None
    cost.check_spending(counted, most)
    with pytest.raises(BadInputError):
        cost.check_spending(counted, most - 0.0002)


def test_no_limit_can_be_held_where_no_price_is_known() -> None:
    assert at_most(example(), "eu-west-1") is None
    assert at_most(example(gpuInstanceType="p5e.48xlarge"), "us-west-2") is None


def test_zones_of_another_region_are_not_its_own() -> None:
    there = {"vpcNat": "per-zone", "vpcZones": ["us-west-2a", "us-west-2b"]}
    west, east = (at_most(example(**there), region) for region in ("us-west-2", "us-east-1"))
    assert west is not None
    assert east == pytest.approx(west + 0.05)


def test_a_place_that_its_stack_would_refuse_is_out_however_cheap_spot_is_now() -> None:
    def within(most: float) -> tuple[list[Priced], list[str]]:
        limits = (Limit(usd=most, named="--max-hourly"),)
        return bring_up_plan.affordable([Priced(place=WEST, nodes=3.0, around=0.41, most=9.6965, limits=limits)])

    fitting, [why] = within(6.0)
    assert fitting == []
    assert "about $3.41 an hour, but the stack counts up to $9.70 (list prices, spot as on demand)" in why
    assert why.endswith("and --max-hourly is 6")
    assert within(9.7)[1] == []


@pytest.mark.parametrize(("most", "said"), [(9.6965, "at most $38.79"), (None, "at least $13.64")])
def test_what_a_spot_place_costs_until_its_end_is_bounded_by_its_price_on_demand(most: float | None, said: str) -> None:
    spot = Priced(place=WEST, nodes=3.0, around=0.41, most=most)
    lines = bring_up_plan.lines(
        [spot], {}, {}, env="sp", what="2 x", reserves=False, hours=4.0, now=datetime.now(UTC), trains=False
    )
    assert f"until --ttl, in 4 h: {said}; then AWS takes the GPU nodes away" in lines


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("vpcEndpoints", "ecr", "vpcEndpoints is 'ecr': it is a list"),
        ("vpcZones", "us-west-2a", "vpcZones is 'us-west-2a': it is a list"),
        ("gpuNodes", "two", "gpuNodes is 'two': it is a whole number"),
        ("systemNodes", "", "systemNodes is '': it is a whole number"),
    ],
)
def test_a_setting_that_cannot_be_counted_with_is_told_by_its_name(setting: str, value: str, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        at_most(example(**{setting: value}), "us-west-2")


def test_what_no_storage_asks_for_is_not_looked_at() -> None:
    assert at_most(example(fsxGiB=""), "us-west-2") == at_most(example(), "us-west-2")


def test_a_place_counts_by_the_file_of_its_region_and_by_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Pulumi.yaml").write_text((stack.FOLDER / "Pulumi.yaml").read_text())
    texts = {"dev": "gpuNodes: 3", "dev-us-east-2": "gpuNodes: 4\n  ray-train-efa:eksStorage: fsx"}
    for name, text in texts.items():
        (tmp_path / f"Pulumi.{name}.yaml").write_text(
            f"config:\n  ray-train-efa:platform: eks\n  ray-train-efa:{text}\n"
        )
    for module in (stack, environment):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    base = Stack("dev")
    env = environment.Environment(name="dev", base=base, cli=PulumiCli(tmp_path), access=base.access())
    east, west = env.config("us-east-2"), env.config("us-west-2")
    assert (east("gpuNodes"), east("eksStorage")) == (3, "fsx")
    assert (west("gpuNodes"), west("eksStorage")) == (3, base.config("eksStorage"))
