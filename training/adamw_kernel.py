"""A Triton kernel; to be imported only where there is a GPU, since other machines may have no Triton."""

import math
from collections.abc import Sequence

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

_BLOCK, _WARPS = 1024, 4
_PROGRAMS = 2048
"""For each tensor, however small: those that find nothing to do cost little."""


class AdamWKernel:
    """As torch._fused_adamw_, for contiguous float32 tensors of one GPU.

    Given a scale, torch's writes scaled gradients back and moves 32 bytes for each element; this one moves 28.
    """

    def __init__(self) -> None:
        self._recorded: list[torch.Tensor] = []
        """The CPU's memory that recorded graphs read at each replay."""

    def __call__(
        self,
        parameters: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor],
        means: Sequence[torch.Tensor],
        squares: Sequence[torch.Tensor],
        steps: Sequence[torch.Tensor],
        *,
        lr: torch.Tensor,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        grad_scale: torch.Tensor,
        found_inf: torch.Tensor,
    ) -> None:
        places = [[one.data_ptr() for one in kind] for kind in (parameters, gradients, means, squares, steps)]
        table = torch.tensor([*places, [parameter.numel() for parameter in parameters]])
        if torch.cuda.is_current_stream_capturing():
            table = table.pin_memory()
            self._recorded.append(table)
        _adamw[(len(steps), _PROGRAMS)](
            table.to(lr.device, non_blocking=True),
            len(steps),
            lr,
            grad_scale,
            found_inf,
            1 - beta1,
            1 - beta2,
            math.log(beta1),
            math.log(beta2),
            eps,
            weight_decay,
            block=_BLOCK,
            num_warps=_WARPS,
        )


# Triton compiles annotations as well, and knows none but its own.
@triton.jit  # type: ignore[untyped-decorator]
def _adamw(  # type: ignore[no-untyped-def]
    table, tensors, lr, grad_scale, found_inf, rest1, rest2, log1, log2, eps, weight_decay, block: tl.constexpr
):
    if tl.load(found_inf) == 0:
        own = table + tl.program_id(0)
        parameters = tl.load(own).to(tl.pointer_type(tl.float32))
        gradients = tl.load(own + tensors).to(tl.pointer_type(tl.float32))
        means = tl.load(own + 2 * tensors).to(tl.pointer_type(tl.float32))
        squares = tl.load(own + 3 * tensors).to(tl.pointer_type(tl.float32))
        # In float64: the first steps' powers are close to one, and it is their difference from it that counts.
        step = tl.load(tl.load(own + 4 * tensors).to(tl.pointer_type(tl.float32))).to(tl.float64)
        elements = tl.load(own + 5 * tensors)
        rate = tl.load(lr)
        stride = (rate / (1 - tl.exp(step * log1))).to(tl.float32)
        widen = (1 / tl.sqrt(1 - tl.exp(step * log2))).to(tl.float32)
        kept = 1 - rate * weight_decay
        scale = 1 / tl.load(grad_scale)
        for start in range(tl.program_id(1).to(tl.int64) * block, elements, tl.num_programs(1) * block):
            at = start + tl.arange(0, block)
            inside = at < elements
            gradient = tl.load(gradients + at, mask=inside) * scale
            mean = tl.load(means + at, mask=inside)
            square = tl.load(squares + at, mask=inside)
            mean += rest1 * (gradient - mean)
            square += rest2 * (gradient * gradient - square)
            parameter = tl.load(parameters + at, mask=inside) * kept
            parameter -= stride * mean / (tl.sqrt(square) * widen + eps)
            tl.store(parameters + at, parameter, mask=inside)
            tl.store(means + at, mean, mask=inside)
            tl.store(squares + at, square, mask=inside)
