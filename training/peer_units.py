"""FSDP units whose parameters and gradients GPUs of a node copy straight into each other's memory.

FSDP lays a unit's shards end to end, gathers them, and copies every parameter out of what came; gradients go the same
way back. Here a matrix that splits evenly needs no such copies. Gathered, it has a place in shared memory: a rank casts
its rows into it and copies the other ranks' rows out of theirs; FSDP's extension for that is a pair of functions on the
shard. Of its gradient each rank sends every other its rows, and the owner adds them up in float32. What is left, norms,
biases and what does not split evenly, goes FSDP's way, through shared buffers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import ref

import torch
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Shard

from training.errors import TrainingError
from training.peer_copies import Gather, Reduce
from training.peer_memory import Buffers, Share, Shared

_ALIGNED = 128  # elements, as far as matrix products care


@dataclass
class Matrix:
    module: torch.nn.Module
    name: str
    parameter: DTensor
    """Its shard; while gathered, the module has another parameter under its name."""
    elements: int
    """Of one rank's rows."""
    received: int
    """Where, in its unit's shared memory for them, other ranks' gradients begin."""


@dataclass
class Units:
    """What the units of one model have in common."""

    share: Share
    dtype: torch.dtype
    """Of gathered parameters and of gradients."""
    gather_in_place: bool
    """Needs memory for all of them at once."""
    reduce_in_place: bool
    """Needs all ranks that have a gradient within reach."""
    held: list[torch.Tensor] = field(default_factory=list)
    """Gradients that may still be read. FSDP waits for one unit's reduction before it begins with the next one's."""

    def __post_init__(self) -> None:
        # FSDP has at most two gathered buffers in use, this unit's and the next one's, and takes neither again before
        # it is copied out; it lays one unit's gradients out only once the unit before is reduced.
        self.gathered, self.reduced, self.received = (Buffers(self.share, places) for places in (2, 1, 1))

    def take_over(self, modules_of_units: Sequence[Sequence[torch.nn.Module]]) -> None:
        """The root's modules come first. All are sharded; their weights need not be there before the first forward."""
        units = [Unit(self, modules) for modules in modules_of_units]
        waiting = list(units)

        def begin(*told: Any) -> None:
            self.held = []
            while waiting:
                waiting.pop(0).begin()
            for unit in units:
                if unit.gradients:
                    raise TrainingError(_not_reduced(unit))

        modules_of_units[0][0].register_forward_pre_hook(begin, prepend=True)


class Unit:
    def __init__(self, units: Units, modules: Sequence[torch.nn.Module]) -> None:
        self.units = units
        self.matrices: list[Matrix] = []
        self.gradients: dict[int, torch.Tensor] = {}
        """Of this backward, by the matrix's number."""
        self.pulls: list[tuple[torch.Tensor, torch.Tensor]] = []
        """What is to be copied where when all ranks have laid their rows out."""
        self._modules = modules
        self._place_held: Shared | None = None
        """Its parts do not hold it."""
        first = modules[0]
        assert isinstance(first, FSDPModule)
        first.set_custom_all_gather(Gather(self))
        first.set_custom_reduce_scatter(Reduce(self))
        if units.reduce_in_place:
            self._handle = first.register_forward_pre_hook(self._watch)

    def begin(self) -> None:
        found = list(_own_parameters(self._modules))
        ranks = found[0][2].device_mesh.shape[-1]
        even = [(m, n, p) for m, n, p in found if p.ndim > 1 and p.shape[0] % ranks == 0]
        taken = {id(p) for _, _, p in even}
        trained = [one for one in even if one[2].requires_grad]
        if trained and not any(p.requires_grad for _, _, p in found if id(p) not in taken):
            even.remove(min(trained, key=lambda one: one[2].numel()))  # FSDP reduces nothing where it finds no gradient
        received = 0
        for module, name, parameter in even:
            elements = parameter.numel() // ranks
            self.matrices.append(Matrix(module, name, parameter, elements, received))
            received += (ranks - 1) * elements
        if self.units.gather_in_place and even:
            self._place(ranks)

    def _place(self, ranks: int) -> None:
        sizes = [-(-matrix.parameter.numel() // _ALIGNED) * _ALIGNED for matrix in self.matrices]
        device = self.matrices[0].parameter.device
        self._place_held = shared = self.units.share(sum(sizes), self.units.dtype, device)
        start = 0
        for matrix, size in zip(self.matrices, sizes, strict=True):
            count, local = matrix.elements, matrix.parameter._local_tensor
            whole = shared.part(shared.rank, start, matrix.parameter.numel())
            parts = whole.split(count)
            for other in shared.others:
                self.pulls.append((parts[other], shared.part(other, start + other * count, count)))
            # FSDP gathers eight elements in the matrix's stead.
            stead = torch.zeros(8, dtype=self.units.dtype, device=device)
            # Weakly, here and below: torch's own hooks would hold in a circle what they are hooks of.
            local.fsdp_pre_all_gather = partial(_lay_out, parts[shared.rank], ref(local), stead)
            local.fsdp_post_all_gather = partial(_gathered, whole.view(matrix.parameter.shape))
            start += size

    def _watch(self, *told: Any) -> None:
        """In the first forward. Gathered parameters are what gets gradients, and they stay the same ones."""
        self._handle.remove()
        for number, matrix in enumerate(self.matrices):
            gathered = matrix.module._parameters[matrix.name]
            assert gathered is not None and not isinstance(gathered, DTensor)
            if gathered.requires_grad:
                gathered.register_post_accumulate_grad_hook(partial(_keep, ref(self), number))


def _not_reduced(unit: Unit) -> str:
    """FSDP calls for no reduction where it finds no gradient of what is left to it."""
    names = sorted({f"{type(unit.matrices[n].module).__name__}.{unit.matrices[n].name}" for n in unit.gradients})
    return (
        f"--cuda_graph on: gradients of {', '.join(names)} were made and not reduced, for the loss uses nothing else "
        "that is trained in their unit; take --cuda_graph off"
    )


def _keep(unit: Any, number: int, parameter: torch.Tensor) -> None:
    """Take the gradient, so that FSDP finds none and lays none out."""
    gradients = unit().gradients
    assert parameter.grad is not None
    gradients[number] = parameter.grad if number not in gradients else gradients[number] + parameter.grad
    parameter.grad = None


def _own_parameters(modules: Sequence[torch.nn.Module]) -> Iterator[tuple[torch.nn.Module, str, DTensor]]:
    """Of one unit: without those of units within it, and each once."""
    seen: set[int] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop(0)
        for name, parameter in module._parameters.items():
            if isinstance(parameter, DTensor) and id(parameter) not in seen:
                seen.add(id(parameter))
                assert parameter.placements[-1] == Shard(0)
                yield module, name, parameter
        waiting += [child for child in module.children() if not isinstance(child, FSDPModule)]


def _lay_out(place: torch.Tensor, local: Any, stead: torch.Tensor, mesh: Any) -> tuple[tuple[torch.Tensor], None]:
    place.copy_(local().view(-1))
    return (stead,), None


def _gathered(
    whole: torch.Tensor, outputs: Any, metadata: Any, dtype: torch.dtype, *, out: torch.Tensor | None = None
) -> tuple[torch.Tensor, tuple[()]] | None:
    return (whole, ()) if out is None else None
