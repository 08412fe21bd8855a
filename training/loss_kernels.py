"""Triton kernels of the loss; to be imported only where there is a GPU, since other machines may have no Triton."""

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

_ROW_BLOCK, _ROW_WARPS = 8192, 16
_SCALE_BLOCK = 4096


def softmax_gradient_in_place(logits: torch.Tensor, labels: torch.Tensor, ignored: int) -> torch.Tensor:
    """The tokens' losses in float32; contiguous (tokens, words) logits become the gradient of their sum.

    Each row is read twice, the second time mostly from cache, and written once.
    """
    tokens, words = logits.shape
    losses = torch.empty(tokens, dtype=torch.float32, device=logits.device)
    _softmax_gradient[(tokens,)](logits, labels, losses, words, ignored=ignored, block=_ROW_BLOCK, num_warps=_ROW_WARPS)
    return losses


def scaled(values: torch.Tensor, scale: torch.Tensor, output: torch.Tensor) -> None:
    """output = values x scale in its own dtype; all contiguous, `scale` one number of any shape."""
    grid = (triton.cdiv(values.numel(), _SCALE_BLOCK),)
    _scale[grid](values, scale, output, values.numel(), block=_SCALE_BLOCK, num_warps=8)


# Triton compiles annotations as well, and knows none but its own.
@triton.jit  # type: ignore[untyped-decorator]
def _softmax_gradient(logits, labels, losses, words, ignored: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row)
    logits += row * words
    largest = tl.full((), float("-inf"), tl.float32)
    total = tl.zeros((), tl.float32)  # of exp(logit - largest)
    target = tl.zeros((), tl.float32)
    for start in range(0, words, block):
        at = start + tl.arange(0, block)
        values = tl.load(logits + at, mask=at < words, other=float("-inf")).to(tl.float32)
        before = largest
        largest = tl.maximum(before, tl.max(values, 0))
        total = total * tl.exp(before - largest) + tl.sum(tl.exp(values - largest), 0)
        # Here and not by a load of its own, which another thread's gradient might come before.
        target += tl.sum(tl.where(at == label, values, 0.0), 0)
    log_sum = largest + tl.log(total)
    counted = label != ignored
    tl.store(losses + row, tl.where(counted, log_sum - target, 0.0))
    for start in range(0, words, block):
        at = start + tl.arange(0, block)
        values = tl.load(logits + at, mask=at < words, other=0.0).to(tl.float32)
        gradient = tl.exp(values - log_sum) - tl.where(at == label, 1.0, 0.0)
        tl.store(logits + at, tl.where(counted, gradient, 0.0), mask=at < words)


@triton.jit  # type: ignore[untyped-decorator]
def _scale(values, scale, output, elements, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < elements
    factor = tl.load(scale).to(tl.float32)
    tl.store(output + at, tl.load(values + at, mask=inside).to(tl.float32) * factor, mask=inside)
