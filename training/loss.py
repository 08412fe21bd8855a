"""Cross-entropy of a language model's last linear layer, without ever holding the logits of all tokens.

For 8 sequences of 1024 tokens and Qwen's 151,936 words the logits alone are 5 GB in float32, and their gradient as
much again. Here a chunk of tokens at a time becomes logits, loss and gradient; the gradients of the weight and of the
hidden states are summed while the chunk is there, so that backward only has to scale them and nothing is computed
twice.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

IGNORED = -100
"""The label of a token that no loss is taken of, as everywhere in torch and transformers."""
_CHUNK_BYTES = 640 * 1024**2
_softmax_gradient_compiled: Callable[..., Any] | None = None


def chunk_tokens_for(vocab_size: int, element_bytes: int) -> int:
    """Tokens whose logits take at most 640 MiB; a power of two, and enough of them to keep a GPU's multipliers busy."""
    fitting = max(64, _CHUNK_BYTES // (vocab_size * element_bytes))
    return int(1 << (fitting.bit_length() - 1))


def linear_cross_entropy(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, *, chunk_tokens: int = 0, compiled: bool = False
) -> torch.Tensor:
    """The sum of the tokens' losses in nats, a float32 scalar.

    hidden (tokens, width), weight (words, width), labels (tokens) with IGNORED where there is none. Logits have the
    dtype of `hidden` and the softmax is float32, as where a bfloat16 model's logits are cast for the loss.
    """
    chunk = chunk_tokens or chunk_tokens_for(weight.shape[0], hidden.element_size())
    loss: torch.Tensor = _LinearCrossEntropy.apply(hidden, weight, labels, chunk, compiled)
    return loss


class _LinearCrossEntropy(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, chunk_tokens: int, compiled: bool
    ) -> torch.Tensor:
        with_hidden, with_weight = ctx.needs_input_grad[:2]
        loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
        hidden_gradient = torch.empty_like(hidden) if with_hidden else None
        # Summed in float32: a sum of bfloat16 chunks would lose what a single product over all tokens keeps.
        weight_gradient = torch.zeros_like(weight, dtype=torch.float32) if with_weight else None
        step = _softmax_gradient(compiled) if with_hidden or with_weight else _loss_only
        for start in range(0, len(hidden), chunk_tokens):
            part = hidden[start : start + chunk_tokens]
            part_loss, gradient = step(part @ weight.t(), labels[start : start + chunk_tokens])
            loss += part_loss
            if hidden_gradient is not None:
                torch.mm(gradient, weight, out=hidden_gradient[start : start + chunk_tokens])
            if weight_gradient is not None:
                _add_product(weight_gradient, gradient.t(), part)
            del gradient
        ctx.save_for_backward(hidden_gradient, weight_gradient)
        ctx.weight_dtype = weight.dtype
        return loss

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden_gradient, weight_gradient = ctx.saved_tensors
        scale = upstream[0]
        if hidden_gradient is not None:
            hidden_gradient = hidden_gradient * scale.to(hidden_gradient.dtype)
        if weight_gradient is not None:
            scaled = torch.empty_like(weight_gradient, dtype=ctx.weight_dtype)
            weight_gradient = torch.mul(weight_gradient, scale, out=scaled)
        return hidden_gradient, weight_gradient, None, None, None


def _softmax_gradient_fused(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The summed loss of (tokens, words) logits, and its gradient in their dtype."""
    wide = logits.float()
    log_sum = torch.logsumexp(wide, dim=-1, keepdim=True)
    counted = (labels != IGNORED).unsqueeze(1)
    target = labels.clamp(min=0).unsqueeze(1)
    loss = torch.where(counted, log_sum - wide.gather(1, target), 0.0).sum()
    words = torch.arange(logits.shape[1], device=logits.device)
    gradient = torch.where(counted, torch.exp(wide - log_sum) - (words == target).float(), 0.0)
    return loss, gradient.to(logits.dtype)


def _softmax_gradient_eager(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As _softmax_gradient_fused, with one float32 copy of the logits instead of several."""
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


def _softmax_gradient(compiled: bool) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """Compiled, the passes over a chunk become two that read and write its own dtype."""
    global _softmax_gradient_compiled
    if not compiled:
        return _softmax_gradient_eager
    if _softmax_gradient_compiled is None:
        _softmax_gradient_compiled = torch.compile(_softmax_gradient_fused)
    return _softmax_gradient_compiled


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """total += left @ right, in the float32 of `total`."""
    if left.is_cuda and left.dtype != total.dtype:
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)
    else:
        total.addmm_(left.to(total.dtype), right.to(total.dtype))
