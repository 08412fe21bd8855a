"""A Triton kernel; to be imported only where there is a GPU, since other machines may have no Triton."""

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

_BLOCK = 4096


def add_in_float32(
    output: torch.Tensor, own: torch.Tensor, others: torch.Tensor, *, rank: int, ranks: int, divisor: int
) -> None:
    """output = the sum of all ranks' parts in their order, divided: `own` is this rank's, `others` are end to end.

    torch.sum over so few rows, and a division, take more than twice as long: each value is read and written once here.
    """
    elements = output.numel()
    grid = (triton.cdiv(elements, _BLOCK),)
    _add[grid](output, own, others, elements, divisor, rank=rank, ranks=ranks, block=_BLOCK, num_warps=8)


# Triton compiles annotations as well, and knows none but its own.
@triton.jit  # type: ignore[untyped-decorator]
def _add(output, own, others, elements, divisor, rank: tl.constexpr, ranks: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < elements
    total = tl.zeros((block,), dtype=tl.float32)
    for part in tl.static_range(ranks):
        if part < rank:
            total += tl.load(others + part * elements + at, mask=inside, other=0.0).to(tl.float32)
        elif part == rank:
            total += tl.load(own + at, mask=inside, other=0.0).to(tl.float32)
        else:
            total += tl.load(others + (part - 1) * elements + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(output + at, total / divisor, mask=inside)
