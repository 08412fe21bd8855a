"""Cross-entropy of a language model's last linear layer, without ever holding the logits of all tokens.

For 8 sequences of 1024 tokens and Qwen's 151,936 words the logits alone are 5 GB in float32, and their gradient as
much again. Here a chunk of tokens at a time becomes logits, loss and gradient; the gradients of the weight and of the
hidden states are summed while the chunk is there, so that backward only has to scale them and nothing is computed
twice.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from training.loss_chunks import chunk_tokens_for

IGNORED = -100
"""The label of a token that no loss is taken of, as everywhere in torch and transformers."""


Step = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""(tokens, words) logits and labels to their summed loss and its gradient, which may lie where the logits did."""


def linear_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    *,
    soft_cap: float | None = None,
    chunk_tokens: int = 0,
    compiled: bool = False,
) -> torch.Tensor:
    """The sum of the tokens' losses in nats, a float32 scalar.

    hidden (tokens, width), weight (words, width), labels (tokens) with IGNORED where there is none. Logits have the
    dtype of `hidden` and the softmax is float32, as where a bfloat16 model's logits are cast for the loss. `soft_cap`
    bends them, as Gemma 2 does. `compiled`, which is for GPUs, has kernels of our own between the products.
    """
    chunk = chunk_tokens or chunk_tokens_for(
        weight.shape[0], hidden.element_size(), compiled=compiled, soft_capped=soft_cap is not None
    )
    loss: torch.Tensor = _LinearCrossEntropy.apply(hidden, weight, labels, soft_cap, chunk, compiled)
    return loss


class _LinearCrossEntropy(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        soft_cap: float | None,
        chunk_tokens: int,
        compiled: bool,
    ) -> torch.Tensor:
        with_hidden, with_weight = ctx.needs_input_grad[:2]
        loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
        hidden_gradient = torch.empty_like(hidden) if with_hidden else None
        weight_gradient: torch.Tensor | None = None
        step: Step = _loss_only
        if with_hidden or with_weight:
            step = _softmax_gradient_fused if compiled else _softmax_gradient
        if soft_cap is not None:
            step = partial(_capped, step, soft_cap)
        for start in range(0, len(hidden), chunk_tokens):
            part = hidden[start : start + chunk_tokens]
            part_loss, gradient = step(part @ weight.t(), labels[start : start + chunk_tokens])
            loss += part_loss
            if hidden_gradient is not None:
                torch.mm(gradient, weight, out=hidden_gradient[start : start + chunk_tokens])
            if with_weight:
                # Summed in float32: a sum of bfloat16 chunks would lose what a single product over all tokens keeps.
                weight_gradient = _sum_with_product(weight_gradient, gradient.t(), part)
            del gradient
        ctx.save_for_backward(hidden_gradient, weight_gradient)
        ctx.weight_dtype, ctx.compiled = weight.dtype, compiled
        return loss

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden_gradient, weight_gradient = ctx.saved_tensors
        scale = upstream[0]
        if hidden_gradient is not None:
            hidden_gradient = hidden_gradient * scale.to(hidden_gradient.dtype)
        if weight_gradient is not None:
            scaled = torch.empty_like(weight_gradient, dtype=ctx.weight_dtype)
            if ctx.compiled:
                from training.loss_kernels import scaled as scale_into

                scale_into(weight_gradient, scale, scaled)
            else:
                torch.mul(weight_gradient, scale, out=scaled)
            weight_gradient = scaled
        return hidden_gradient, weight_gradient, None, None, None, None


def _capped(
    step: Step, soft_cap: float, logits: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    bent = logits.div_(soft_cap).tanh_()
    loss, gradient = step(bent * soft_cap, labels)
    if step is not _loss_only:
        torch.ops.aten.tanh_backward.grad_input(gradient, bent, grad_input=gradient)
    return loss, gradient


def _softmax_gradient_fused(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The summed loss of (tokens, words) logits, and its gradient in their place."""
    from training.loss_kernels import softmax_gradient_in_place

    return softmax_gradient_in_place(logits, labels, IGNORED).sum(), logits


def _softmax_gradient(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As _softmax_gradient_fused, with a float32 copy of the logits."""
    wide = logits.float()
    loss = functional.cross_entropy(wide, labels, ignore_index=IGNORED, reduction="sum")
    gradient = torch.softmax(wide, dim=-1, out=wide)
    counted = labels != IGNORED
    gradient.scatter_add_(1, labels.clamp(min=0).unsqueeze(1), gradient.new_full((len(labels), 1), -1.0))
    gradient.mul_(counted.unsqueeze(1))
    return loss, gradient.to(logits.dtype)


def _loss_only(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    loss = functional.cross_entropy(logits.float(), labels, ignore_index=IGNORED, reduction="sum")
    return loss, logits


def _sum_with_product(total: torch.Tensor | None, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """total + left @ right in float32, in the memory of `total`."""
    if left.is_cuda and left.dtype != torch.float32:
        if total is None:
            return torch.mm(left, right, out_dtype=torch.float32)
        return torch.addmm(total, left, right, out_dtype=torch.float32, out=total)
    left, right = left.float(), right.float()
    return left @ right if total is None else total.addmm_(left, right)
