"""What FSDP calls to gather a unit and to reduce its gradients where GPUs copy them into each other's memory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter
from torch.distributed.tensor import DTensor

from training.peer_memory import Shared
from training.reduction import add_in_order

if TYPE_CHECKING:
    from training.peer_units import Unit


class Gather(AllGather):  # type: ignore[misc]
    def __init__(self, unit: "Unit") -> None:
        self._unit = unit
        self._shared: Shared | None = None

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """FSDP calls it right before the all-gather that it is for."""
        (elements,) = size
        self._shared = self._unit.units.gathered.take(int(elements), dtype, device)
        return self._shared.part(self._shared.rank, 0, int(elements))

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> None:
        shared, count = self._shared, input_tensor.numel()
        assert shared is not None
        shared.meet()
        for target, source in self._unit.pulls:
            target.copy_(source)
        for other in shared.others:
            output_tensor[other * count : (other + 1) * count].copy_(shared.part(other, other * count, count))
        shared.meet()  # only now may anybody lay out anew


class Reduce(ReduceScatter):  # type: ignore[misc]
    def __init__(self, unit: "Unit") -> None:
        self._unit = unit
        self._output_is_next = False
        self._shared: Shared | None = None

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """FSDP asks for the input of a reduction and then for its output, both of the reduction dtype."""
        (elements,) = size
        output, self._output_is_next = self._output_is_next, not self._output_is_next
        if output:
            return torch.empty(int(elements), dtype=torch.float32, device=device)
        self._shared = self._unit.units.reduced.take(int(elements), dtype, device)
        return self._shared.part(self._shared.rank, 0, int(elements))

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> None:
        if op not in (dist.ReduceOp.AVG, dist.ReduceOp.SUM):
            raise ValueError(f"only sums and averages can be exchanged, not {op}")
        shared, unit, count = self._shared, self._unit, output_tensor.numel()
        assert shared is not None
        rank, ranks = shared.rank, group.size()
        divisor = ranks if op == dist.ReduceOp.AVG else 1
        others = input_tensor.new_empty((ranks - 1) * count)
        gradients, unit.gradients = unit.gradients, {}
        unit.units.held = list(gradients.values())
        received = None
        if gradients:
            size = sum((ranks - 1) * matrix.elements for matrix in unit.matrices)
            received = unit.units.received.take(size, input_tensor.dtype, input_tensor.device)
        shared.meet()
        for other in shared.others:
            place = (other - (other > rank)) * count
            others[place : place + count].copy_(shared.part(other, rank * count, count))
        for number, gradient in gradients.items():
            matrix = unit.matrices[number]
            rows = gradient.view(-1).split(matrix.elements)
            for other in shared.others:
                assert received is not None
                at = matrix.received + (rank - (rank > other)) * matrix.elements
                received.part(other, at, matrix.elements).copy_(rows[other])
        shared.meet()  # what was sent is there, and what was laid out may be written over
        add_in_order(output_tensor, input_tensor[rank * count : (rank + 1) * count], others, rank, divisor)
        for number, gradient in gradients.items():
            matrix = unit.matrices[number]
            assert received is not None
            total = torch.empty(matrix.elements, dtype=torch.float32, device=gradient.device)
            own = gradient.view(-1).split(matrix.elements)[rank]
            sent = received.part(rank, matrix.received, (ranks - 1) * matrix.elements)
            add_in_order(total, own, sent, rank, divisor)
            _accumulate(matrix.parameter, total)


def _accumulate(parameter: DTensor, total: torch.Tensor) -> None:
    local = total.view(parameter._local_tensor.shape)
    if parameter.grad is None:
        parameter.grad = DTensor.from_local(
            local,
            parameter.device_mesh,
            parameter.placements,
            run_check=False,
            shape=parameter.shape,
            stride=parameter.stride(),
        )
    else:
        parameter.grad._local_tensor += local
