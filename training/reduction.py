"""Reduce-scatter that sends bfloat16 and adds in float32."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter

from training import kernels


class ExchangeReduceScatter(ReduceScatter):  # type: ignore[misc]
    """Each rank gets every other's part of its shard as it is and adds them up itself.

    A model that computes in bfloat16 has bfloat16 gradients. A float32 reduce-scatter casts them, so as not to round
    the sum, and sends twice the bytes; here what is sent is what was computed, and only the sum is float32. Every
    rank sends its parts straight to their owners: as many bytes as a ring sends inside a node, but between nodes more,
    so it is for shards that stay within one. To be set with a reduction dtype of bfloat16, one object for each unit.
    """

    def __init__(self) -> None:
        self._output_is_next = False

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """FSDP asks for the input of a reduction and then for its output, both of the reduction dtype."""
        if self._output_is_next:
            dtype = torch.float32
        self._output_is_next = not self._output_is_next
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> None:
        ranks = group.size()
        received = torch.empty_like(input_tensor)
        dist.all_to_all_single(received, input_tensor, group=group)
        torch.sum(received.view(ranks, -1), dim=0, dtype=torch.float32, out=output_tensor)
        if op == dist.ReduceOp.AVG:
            output_tensor.div_(ranks)
        elif op != dist.ReduceOp.SUM:
            raise ValueError(f"only sums and averages can be exchanged, not {op}")


def add_in_order(output: torch.Tensor, own: torch.Tensor, others: torch.Tensor, rank: int, divisor: int) -> None:
    """The sum of all ranks' parts in the float32 of `output`, divided; `others` are in their order, end to end."""
    if kernels.run_on(output.device):
        from training.add_kernel import add_in_float32

        ranks = others.numel() // own.numel() + 1
        add_in_float32(output, own, others, rank=rank, ranks=ranks, divisor=divisor)
        return
    parts = list(others.split(own.numel()))
    parts.insert(rank, own)
    output.zero_()
    for part in parts:
        output.add_(part)
    output.div_(divisor)
