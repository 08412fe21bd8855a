"""Seed 1 throughout; the reference is torch's own AdamW."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

from training import kernels
from training.errors import TrainingError
from training.optimizer import BETAS, EPSILON, ShardedAdamW, decay_groups, fits_kernel
from training.schedule import Schedule


class Small(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(11, 6)
        self.middle = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> Any:
        return self.head(self.norm(self.middle(self.embedding(tokens))))


def give_gradients(module: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in module.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def names(module: nn.Module, group: dict[str, Any]) -> set[str]:
    return {name for name, parameter in module.named_parameters() if any(parameter is own for own in group["params"])}


def test_matrices_decay_and_biases_norms_and_embeddings_do_not() -> None:
    module = Small()
    decayed, others = decay_groups(module, 0.1, decay_embeddings=False)
    assert (decayed["weight_decay"], names(module, decayed)) == (0.1, {"middle.weight"})
    assert others["weight_decay"] == 0.0
    assert names(module, others) == {"embedding.weight", "middle.bias", "norm.weight", "norm.bias"}


def test_embeddings_and_the_head_tied_to_them_decay_by_choice() -> None:
    module = Small()
    decayed, _ = decay_groups(module, 0.1, decay_embeddings=True)
    assert names(module, decayed) == {"embedding.weight", "middle.weight"}


def test_what_is_frozen_is_in_no_group() -> None:
    module = Small()
    module.requires_grad_(False)
    module.middle.weight.requires_grad_(True)
    (only,) = decay_groups(module, 0.1, decay_embeddings=True)
    assert names(module, only) == {"middle.weight"}


def test_it_updates_as_torchs_adamw_with_gradients_divided_by_their_scale() -> None:
    ours, theirs = Small(), Small()
    optimizer = ShardedAdamW(decay_groups(ours, 0.1, decay_embeddings=False), lr=0.01)
    groups = decay_groups(theirs, 0.1, decay_embeddings=False)
    reference = torch.optim.AdamW(groups, lr=0.01, betas=BETAS, eps=EPSILON)
    for step in range(1, 6):
        rate = 0.01 / step
        optimizer.set_learning_rate(rate)
        for group in reference.param_groups:
            group["lr"] = rate
        give_gradients(ours, step)
        give_gradients(theirs, step)
        for parameter in theirs.parameters():
            assert parameter.grad is not None
            parameter.grad /= 8.0
        optimizer.step(gradient_scale=torch.tensor(8.0), skip=torch.tensor(0.0))
        reference.step()
        for (name, found), expected in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7, msg=f"{name} at step {step}")


def test_a_skipped_step_leaves_weights_moments_and_count_as_they_were() -> None:
    module = Small()
    optimizer = ShardedAdamW(decay_groups(module, 0.1, decay_embeddings=False), lr=0.01)
    give_gradients(module, 1)
    optimizer.step()
    before = copy.deepcopy((module.state_dict(), optimizer.state_dict()))
    give_gradients(module, 2)
    module.middle.weight.grad[0, 0] = float("nan")
    optimizer.step(gradient_scale=torch.tensor(1.0), skip=torch.tensor(1.0))
    after = (module.state_dict(), optimizer.state_dict())
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_a_distributed_checkpoint_holds_its_state_as_it_would_torchs() -> None:
    module = Small()
    optimizer = ShardedAdamW(decay_groups(module, 0.1, decay_embeddings=False), lr=0.01)
    give_gradients(module, 1)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    saved = copy.deepcopy(get_optimizer_state_dict(module, optimizer))
    assert set(saved["state"]["middle.weight"]) == {"step", "exp_avg", "exp_avg_sq"}

    other = Small()
    other.load_state_dict(module.state_dict())
    resumed = ShardedAdamW(decay_groups(other, 0.1, decay_embeddings=False), lr=0.5)
    set_optimizer_state_dict(other, resumed, saved)
    for model, going_on in ((module, optimizer), (other, resumed)):
        going_on.set_learning_rate(0.02)
        give_gradients(model, 2)
        going_on.step()
    torch.testing.assert_close(other.state_dict(), module.state_dict(), rtol=0, atol=0)


def test_the_rate_rises_falls_by_half_a_cosine_and_ends_at_its_floor() -> None:
    schedule = Schedule(peak=2.0, steps=110, warm_up_steps=10, floor=0.1)
    assert schedule.at(1) == pytest.approx(0.2)
    assert schedule.at(5) == pytest.approx(1.0)
    assert schedule.at(10) == pytest.approx(2.0)
    assert schedule.at(60) == pytest.approx(2.0 * 0.55), "half way down"
    assert schedule.at(110) == pytest.approx(0.2)
    rates = [schedule.at(step) for step in range(10, 111)]
    assert rates == sorted(rates, reverse=True)


def test_without_warm_up_and_with_a_floor_of_one_the_rate_stays() -> None:
    schedule = Schedule(peak=3e-4, steps=7)
    assert {schedule.at(step) for step in range(1, 8)} == {3e-4}


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"floor": 1.5}, "--lr_floor 1.5"),
        ({"floor": -0.1}, "--lr_floor -0.1"),
        ({"warm_up_steps": 10}, "--warm_up_steps 10"),
        ({"warm_up_steps": -1}, "--warm_up_steps -1"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_by_its_argument(changes: dict[str, Any], argument: str) -> None:
    with pytest.raises(TrainingError, match=argument):
        Schedule(**{"peak": 1.0, "steps": 10} | changes).check()


def test_each_parameter_has_its_state_from_the_start_and_counts_as_trained_once_it_was() -> None:
    module = Small()
    optimizer = ShardedAdamW(decay_groups(module, 0.1, decay_embeddings=False), lr=0.01)
    made = get_optimizer_state_dict(module, optimizer)["state"]
    assert set(made) == {"embedding.weight", "middle.weight", "middle.bias", "norm.weight", "norm.bias"}
    assert not optimizer.trained()
    module.middle.weight.grad = torch.ones_like(module.middle.weight)
    optimizer.step(gradient_scale=torch.tensor(1.0), skip=torch.tensor(1.0))
    assert not optimizer.trained(), "a skipped step trains nothing"
    module.middle.weight.grad = torch.ones_like(module.middle.weight)
    optimizer.step()
    assert optimizer.trained() == {module.middle.weight}


def test_our_own_kernel_is_for_float32_on_gpus_with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeTensorMode():  # makes tensors of a GPU that is not there
        on_gpu = {dtype: torch.empty(4, 2, dtype=dtype, device="cuda") for dtype in (torch.float32, torch.bfloat16)}
    for has_triton in (True, False):
        monkeypatch.setattr(kernels, "_has_triton", lambda found=has_triton: found)
        assert fits_kernel(on_gpu[torch.float32]) == has_triton
        assert not fits_kernel(on_gpu[torch.float32].t()), "not laid out end to end"
        assert not fits_kernel(on_gpu[torch.bfloat16])
        assert not fits_kernel(torch.empty(4, 2))
