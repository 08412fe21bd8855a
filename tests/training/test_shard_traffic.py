"""What benchmarks.shard_traffic expects, against figures worked out by hand: Qwen2.5-1.5B on two nodes of four GPUs."""

from typing import Any

import pytest

from benchmarks.shard_traffic import expected_bytes, least_bytes
from training.sharding import Sharding

SIZES: dict[str, Any] = {"blocks": 1_310_339_072, "root": 233_375_232}
PARAMETERS = sum(SIZES.values())


def sent(options: Sharding) -> float:
    return expected_bytes(options, **SIZES, nodes=2, per_node=4, backend="nccl")


def test_hsdp_sends_four_sevenths_of_what_fsdp_sends() -> None:
    fsdp, hsdp = sent(Sharding()), sent(Sharding(mode="hsdp"))
    assert hsdp == pytest.approx(4 * PARAMETERS), "each gradient goes over once as a float32, in either direction"
    # The root is gathered once a step and not twice, so it is a little more than 4 / 7.
    assert hsdp / fsdp == pytest.approx(4 / 7, rel=0.06)
    assert sent(Sharding(keep_gathered=True)) == pytest.approx(7 / 8 * 6 * PARAMETERS)


def test_nothing_sends_less_than_it_must() -> None:
    for options in (Sharding(), Sharding(keep_gathered=True), Sharding(mode="hsdp")):
        assert least_bytes(options, **SIZES, nodes=2) <= sent(options) * (1 + 1e-9)


def test_gloo_sends_twice_the_gradients_since_it_sums_them_up_everywhere() -> None:
    options = Sharding()
    more = expected_bytes(options, **SIZES, nodes=2, per_node=4) - sent(options)
    assert more == pytest.approx(7 / 8 * 4 * PARAMETERS)
