import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.training import step_ranks
from tests.training.ranks import run_ranks
from tests.training.step_ranks import RANKS, STEPS, Case, Training, trained
from training.causal_loss import CausalLoss
from training.optimizer import ShardedAdamW, decay_groups
from training.step import MAX_GRADIENT_NORM, TrainStep

LOSS, WEIGHTS = 2e-5, 2e-4
"""Relative. The ranks add the same float32 numbers in another order, and twenty steps let that difference grow."""

TWO_NODES = (0, 0, 1, 1)
CASES = {
    "fsdp": Case({}),
    "fsdp, whole gradients until the last micro-batch": Case({"reduce_each_micro_batch": False}),
    "fsdp, parameters kept gathered, two blocks a unit": Case({"keep_gathered": True, "blocks_per_unit": 2}),
    "hsdp": Case({"mode": "hsdp"}, TWO_NODES),
    "hsdp, ranks of a node not next to each other": Case({"mode": "hsdp"}, (0, 1, 0, 1)),
    "fsdp, all activations computed again": Case({}, checkpointing="full"),
    "hsdp, feed-forward computed again": Case({"mode": "hsdp"}, TWO_NODES, checkpointing="selective"),
}
REDUCED = Case({"precision": "mixed", "exchange": False}, steps=1)
EXCHANGED = Case({"precision": "mixed"}, steps=1)
IN_BFLOAT16 = {
    "resharded": Case({"precision": "mixed"}, steps=5),
    "kept gathered, two blocks a unit": Case(
        {"precision": "mixed", "keep_gathered": True, "blocks_per_unit": 2}, steps=5
    ),
    "kept gathered, hsdp": Case({"precision": "mixed", "keep_gathered": True, "mode": "hsdp"}, TWO_NODES, steps=5),
}
SHARING = {f"{name}, by shared memory": replace(case, share_memory=True) for name, case in IN_BFLOAT16.items()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Training:
    return trained(tmp_path_factory.mktemp("alone"), 1, {"alone": Case()})["alone"]


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Training]:
    cases = CASES | IN_BFLOAT16 | SHARING | {"reduced": REDUCED, "exchanged": EXCHANGED}
    return trained(tmp_path_factory.mktemp("four"), RANKS, cases)


def test_the_single_process_learns_and_clips_so_that_there_is_something_to_compare(alone: Training) -> None:
    told, _ = alone
    assert told[0][0] - told[-1][0] > 1.0
    assert sum(norm > MAX_GRADIENT_NORM for _, norm, _ in told) >= 5, "clipping must act"
    assert sum(norm < MAX_GRADIENT_NORM for _, norm, _ in told) >= 1, "and must not always act"
    assert len({tokens for _, _, tokens in told}) > 5, "steps must differ in their number of tokens"


@pytest.mark.parametrize("name", CASES)
def test_four_ranks_learn_what_one_process_learns(name: str, alone: Training, four: dict[str, Training]) -> None:
    told, weights = four[name]
    expected, expected_weights = alone
    assert len(told) == STEPS
    for step, (found, right) in enumerate(zip(told, expected, strict=True), 1):
        assert found[2] == right[2], f"tokens at step {step}"
        assert found[0] == pytest.approx(right[0], rel=LOSS), f"loss at step {step}"
        assert found[1] == pytest.approx(right[1], rel=10 * LOSS), f"gradient norm at step {step}"
    for weight, right in expected_weights.items():
        assert float((weights[weight] - right).norm() / right.norm()) < WEIGHTS, weight


def test_bfloat16_gradients_added_in_float32_are_a_float32_reduction(four: dict[str, Training]) -> None:
    """Of one step: both ways send the same bfloat16 gradients and add them in float32."""
    (told, weights), (exchanged_told, exchanged_weights) = four["reduced"], four["exchanged"]
    assert exchanged_told[0] == pytest.approx(told[0], rel=1e-6)
    for name, right in weights.items():
        torch.testing.assert_close(exchanged_weights[name], right, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", IN_BFLOAT16)
def test_ranks_that_read_each_others_memory_learn_the_very_same(name: str, four: dict[str, Training]) -> None:
    (told, weights), (shared_told, shared_weights) = four[name], four[f"{name}, by shared memory"]
    assert shared_told == told
    for weight, right in weights.items():
        assert torch.equal(shared_weights[weight], right), weight


def test_what_is_frozen_takes_no_gradient_of_its_unit_with_it(tmp_path: Path) -> None:
    """Split over two every matrix goes by shared memory, and FSDP has norms and biases only."""
    case = Case({"precision": "mixed"}, (0, 0), steps=2, only_matrices=True)
    both = trained(tmp_path, 2, {"by gloo": case, "shared": replace(case, share_memory=True)})
    (told, weights), (shared_told, shared_weights) = both.values()
    assert shared_told == told
    for weight, right in weights.items():
        assert torch.equal(shared_weights[weight], right), weight


def test_a_gradient_that_is_not_finite_stops_every_rank_and_changes_nothing(tmp_path: Path) -> None:
    run_ranks(RANKS, step_ranks.run_broken, tmp_path, 2)
    for rank in range(RANKS):
        told = json.loads((tmp_path / f"told-{rank}").read_text())
        assert told["said"].startswith("the loss is nan"), told
        assert told["unchanged"]
        assert told["steps"] == [1.0], "a step that was skipped must not count"


def test_no_part_of_a_step_looks_at_what_it_computes() -> None:
    """Tensors without data cannot be looked at: whatever makes the CPU wait for a GPU raises here."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

    with FakeTensorMode():
        objective = CausalLoss(step_ranks.model(), chunk_tokens=16)
        optimizer = ShardedAdamW(decay_groups(objective, 0.1, decay_embeddings=False), lr=0.01)
        step = TrainStep(objective, optimizer)
        tokens = torch.zeros(2, step_ranks.LENGTH, dtype=torch.int64)
        batch = {"input_ids": tokens, "labels": tokens}
        optimizer.set_learning_rate(0.02)
        figures = step.queue([batch, batch])
        with pytest.raises(DataDependentOutputException):
            figures.tolist()
