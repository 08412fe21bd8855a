"""What the compiler is asked for, with torch's tracing backends: inductor itself takes a minute on a CPU (`full`)."""

from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from tests.training.batches import next_token_batch
from tests.training.test_causal_loss import rows, tiny
from training.activations import checkpoint_activations
from training.causal_loss import CausalLoss
from training.compile import compile_blocks
from training.config import CHECKPOINTING
from training.errors import TrainingError


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()
    counters.clear()


def loss_and_gradients(objective: CausalLoss) -> tuple[float, dict[str, torch.Tensor]]:
    objective.zero_grad()
    loss, _ = objective(**next_token_batch(rows()))
    loss.backward()
    return loss.item(), {name: parameter.grad.clone() for name, parameter in objective.named_parameters()}


@pytest.mark.parametrize("how", CHECKPOINTING)
def test_all_blocks_share_one_compilation_and_compute_the_same(how: str) -> None:
    expected, gradients = loss_and_gradients(CausalLoss(tiny("qwen2", num_hidden_layers=5)))
    objective = CausalLoss(tiny("qwen2", num_hidden_layers=5))
    checkpoint_activations(objective, how)
    said: list[str] = []
    compile_blocks(objective, said.append, recompute_pointwise=how == "pointwise", backend="aot_eager")
    for _ in range(2):
        loss, found = loss_and_gradients(objective)
    assert loss == pytest.approx(expected, rel=1e-6)
    torch.testing.assert_close(found, gradients, rtol=1e-4, atol=1e-6)
    assert counters["stats"]["unique_graphs"] == 1
    assert said == []


def test_names_in_state_dicts_stay_what_they_were() -> None:
    objective = CausalLoss(tiny("qwen2"))
    names = list(objective.state_dict())
    checkpoint_activations(objective, "full")
    compile_blocks(objective, pytest.fail, backend="aot_eager")
    loss_and_gradients(objective)
    assert list(objective.state_dict()) == names


def test_where_compiling_fails_it_is_said_once_and_blocks_run_eagerly() -> None:
    def broken(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no C compiler here")

    expected, gradients = loss_and_gradients(CausalLoss(tiny("qwen2")))
    objective = CausalLoss(tiny("qwen2"))
    said: list[str] = []
    compile_blocks(objective, said.append, backend=broken)
    loss, found = loss_and_gradients(objective)
    assert len(said) == 1
    assert "no C compiler here" in said[0]
    assert loss == expected
    torch.testing.assert_close(found, gradients, rtol=0, atol=0)


@pytest.mark.parametrize("how", ["selective", "full"])
def test_less_is_computed_again_than_kept_back(how: str) -> None:
    """The feed-forward part, or the whole block, runs its forward twice, and what is around it once."""
    objective = CausalLoss(tiny("qwen2"))
    calls = {"mlp": 0, "self_attn": 0, "norm": 0}
    block = objective.model.model.layers[0]
    for name, module in (("mlp", block.mlp.up_proj), ("self_attn", block.self_attn.q_proj)):
        module.register_forward_hook(lambda *_, name=name: calls.__setitem__(name, calls[name] + 1))
    objective.model.model.norm.register_forward_hook(lambda *_: calls.__setitem__("norm", calls["norm"] + 1))
    checkpoint_activations(objective, how)
    loss_and_gradients(objective)
    assert calls == {"mlp": 2, "self_attn": 2 if how == "full" else 1, "norm": 1}


def test_a_model_without_a_feed_forward_part_of_that_name_is_refused() -> None:
    objective = CausalLoss(tiny("qwen2"))
    for block in objective.model.model.layers:
        block.feed_forward = block.mlp
        del block.mlp
    with pytest.raises(TrainingError, match=r"--activation_checkpointing selective: .*use full"):
        checkpoint_activations(objective, "selective")


@pytest.mark.full
def test_inductor_itself_computes_the_same() -> None:
    expected, gradients = loss_and_gradients(CausalLoss(tiny("qwen2")))
    objective = CausalLoss(tiny("qwen2"))
    compile_blocks(objective, pytest.fail, recompute_pointwise=True)
    loss, found = loss_and_gradients(objective)
    assert loss == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(found, gradients, rtol=1e-3, atol=1e-4)
