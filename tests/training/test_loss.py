"""Seeds are 0 throughout; the reference is torch's own cross-entropy over full logits, in float64 where it matters."""

from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from training.loss import IGNORED, linear_cross_entropy
from training.loss_chunks import chunk_tokens_for

TOKENS, WIDTH, WORDS = 50, 16, 301


def problem(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(TOKENS, WIDTH, generator=generator).to(dtype)
    weight = torch.randn(WORDS, WIDTH, generator=generator).to(dtype)
    labels = torch.randint(0, WORDS, (TOKENS,), generator=generator)
    labels[::7] = IGNORED
    return hidden.requires_grad_(), weight.requires_grad_(), labels


def exact(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, soft_cap: float | None = None
) -> tuple[torch.Tensor, ...]:
    """Loss and both gradients, in float64."""
    wide_hidden, wide_weight = (tensor.detach().double().requires_grad_() for tensor in (hidden, weight))
    logits = wide_hidden @ wide_weight.t()
    if soft_cap is not None:
        logits = soft_cap * torch.tanh(logits / soft_cap)
    loss = functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")
    return loss.detach(), *torch.autograd.grad(loss, [wide_hidden, wide_weight])


def relative(found: torch.Tensor | None, expected: torch.Tensor) -> float:
    assert found is not None
    return float((found.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize("soft_cap", [None, 3.0])
@pytest.mark.parametrize("chunk_tokens", [7, 50, 4096], ids=["uneven chunks", "one chunk", "a chunk larger than all"])
def test_loss_and_gradients_are_those_of_full_logits(chunk_tokens: int, soft_cap: float | None) -> None:
    hidden, weight, labels = problem(torch.float32)
    loss = linear_cross_entropy(hidden, weight, labels, soft_cap=soft_cap, chunk_tokens=chunk_tokens)
    loss.backward()
    expected, hidden_gradient, weight_gradient = exact(hidden, weight, labels, soft_cap)
    assert loss.item() == pytest.approx(float(expected), rel=1e-6)
    assert relative(hidden.grad, hidden_gradient) < 1e-6
    assert relative(weight.grad, weight_gradient) < 1e-6


def test_in_bfloat16_chunks_cost_no_precision_and_torchs_own_chunked_loss_does() -> None:
    hidden, weight, labels = problem(torch.bfloat16)
    expected, hidden_gradient, weight_gradient = exact(hidden, weight, labels)
    full = functional.cross_entropy((hidden @ weight.t()).float(), labels, ignore_index=IGNORED, reduction="sum")
    full_gradients = torch.autograd.grad(full, [hidden, weight])

    loss = linear_cross_entropy(hidden, weight, labels, chunk_tokens=8)
    loss.backward()
    assert loss.dtype == torch.float32
    assert abs(loss.item() - float(expected)) <= 1.01 * abs(float(full) - float(expected)) + 1e-3
    assert relative(hidden.grad, hidden_gradient) < 1.05 * relative(full_gradients[0], hidden_gradient)
    assert relative(weight.grad, weight_gradient) < 1.05 * relative(full_gradients[1], weight_gradient)
    assert hidden.grad is not None
    assert weight.grad is not None
    assert hidden.grad.dtype == weight.grad.dtype == torch.bfloat16

    if hasattr(functional, "linear_cross_entropy"):  # the reason not to use it: it rounds the loss to bfloat16
        options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=8, chunking_method=None)
        theirs = functional.linear_cross_entropy(hidden, weight, labels, reduction="sum", options=options)
        assert theirs.dtype == torch.bfloat16


def test_the_gradient_is_scaled_by_what_comes_from_above() -> None:
    hidden, weight, labels = problem(torch.float32)
    (linear_cross_entropy(hidden, weight, labels, chunk_tokens=16) * 0.25).backward()
    _, hidden_gradient, weight_gradient = exact(hidden, weight, labels)
    assert relative(hidden.grad, hidden_gradient * 0.25) < 1e-6
    assert relative(weight.grad, weight_gradient * 0.25) < 1e-6


def test_a_frozen_head_still_gives_the_hidden_states_their_gradient() -> None:
    hidden, weight, labels = problem(torch.float32)
    linear_cross_entropy(hidden, weight.detach(), labels, chunk_tokens=16).backward()
    assert weight.grad is None
    assert relative(hidden.grad, exact(hidden, weight, labels)[1]) < 1e-6


def test_without_gradients_only_the_loss_is_made() -> None:
    hidden, weight, labels = problem(torch.float32)
    with torch.no_grad():
        loss = linear_cross_entropy(hidden, weight, labels, chunk_tokens=16)
    assert loss.item() == pytest.approx(float(exact(hidden, weight, labels)[0]), rel=1e-6)


def test_labels_that_are_all_ignored_give_zero_and_no_gradient() -> None:
    hidden, weight, _ = problem(torch.float32)
    loss = linear_cross_entropy(hidden, weight, torch.full((TOKENS,), IGNORED), chunk_tokens=16)
    loss.backward()
    assert loss.item() == 0.0
    assert hidden.grad is not None
    assert not hidden.grad.any()


def test_chunks_of_float32_are_summed_in_the_memory_of_the_first() -> None:
    """A model's head may be of some gigabytes, and the plan has its gradient once."""
    made = []

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            if function is torch.ops.aten.mm.default and result.shape == (WORDS, WIDTH):
                made.append(result)
            return result

    hidden, weight, labels = problem(torch.float32)
    with Watch():
        linear_cross_entropy(hidden, weight, labels, chunk_tokens=16)
    assert len(made) == 1


def test_no_chunk_holds_more_than_its_share_of_the_logits() -> None:
    for words, element_bytes in [(151_936, 2), (151_936, 4), (259, 4), (32_000, 2)]:
        for compiled, soft_capped in ((False, False), (True, False), (False, True), (True, True)):
            chunk = chunk_tokens_for(words, element_bytes, compiled=compiled, soft_capped=soft_capped)
            copies = (1 if compiled else 2) + soft_capped
            assert chunk * words * element_bytes * copies <= 1280 * 1024**2
            assert chunk & (chunk - 1) == 0
    assert chunk_tokens_for(151_936, 2) == 2048
    assert chunk_tokens_for(151_936, 2, compiled=True) == 4096
    assert chunk_tokens_for(10**9, 4) == 64, "a chunk of a few tokens would be all overhead"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="Triton runs on GPUs only")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("words", [WORDS, 20_000])
@pytest.mark.parametrize("soft_cap", [None, 3.0])
def test_the_kernels_between_the_products_give_the_same(dtype: torch.dtype, words: int, soft_cap: float | None) -> None:
    generator = torch.Generator("cuda").manual_seed(0)
    hidden = torch.randn(TOKENS, 64, generator=generator, device="cuda").to(dtype).requires_grad_()
    weight = (torch.randn(words, 64, generator=generator, device="cuda") / 4).to(dtype).requires_grad_()
    labels = torch.randint(0, words, (TOKENS,), generator=generator, device="cuda")
    labels[::7] = IGNORED
    expected, *right = exact(hidden, weight, labels, soft_cap)
    loss = linear_cross_entropy(hidden, weight, labels, soft_cap=soft_cap, chunk_tokens=16, compiled=True)
    (loss * 0.5).backward()
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    assert loss.item() == pytest.approx(float(expected), rel=tolerance)
    for found, wanted in zip((hidden.grad, weight.grad), right, strict=True):
        assert relative(found, wanted / 2) < tolerance
