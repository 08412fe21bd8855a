"""PURE: the least that training steps move between one node and the others, whatever algorithm moves it.

Under full sharding (fsdp) the parameters of each unit are split over all ranks. Let a unit have P parameters, n of them
in the shards of this node's ranks, each of g bytes while gathered and r bytes while gradients are reduced. Then of one

    all-gather       g (P - n) bytes come in: what this node does not hold
                     g n       go out:        what only this node holds
    reduce-scatter   r n       come in:       the other nodes' sums for what this node holds
                     r (P - n) go out:        this node's sums for what others hold

at least, each byte once; rings, trees and padding only add to it. A micro-batch reduces the gradients of each unit's
trained parameters once. It gathers a unit before its forward pass and, where the unit lets go of its parameters after
that, again before its backward pass. The root unit keeps them till then; one that is kept gathered keeps them for a
whole step. Such a unit may be found gathered by the first of the counted steps, by an evaluation, and is not counted
for that one.

Under hybrid sharding (hsdp) each node has all parameters, and what crosses is one all-reduce of a step's gradients

                     r P       come in and go out: the others' sums, and this node's

A unit that the run has trained is taken to be used in every step; one that it has not is not counted. Loss, gradient
norm, evaluations and checkpoints come on top.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """`rows` is its first dimension, the one that is split; `row` counts the elements in each."""

    rows: int
    row: int
    trained: bool


@dataclass(frozen=True, kw_only=True)
class Unit:
    """What FSDP gathers and reduces at once. Bytes are those of one element."""

    parameters: tuple[Parameter, ...]
    gathered_bytes: int
    reduced_bytes: int
    reshards: bool
    """Whether it lets go of its parameters after the forward pass."""

    @property
    def trained(self) -> list[Parameter]:
        return [one for one in self.parameters if one.trained]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a step does with its units."""

    replicated: bool = False
    """hsdp: each node holds the whole model."""
    micro_batches: int = 1
    kept_gathered: bool = False
    """Units stay gathered from a step's first micro-batch to its last."""
    reduced_once: bool = False
    """Gradients are reduced after the last micro-batch only."""


def least(
    units: Sequence[Unit], nodes: Sequence[int], node: int, steps: int, plan: Plan | None = None
) -> dict[str, int]:
    """Bytes that so many steps must send from and receive on `node`; `nodes` has each rank's."""
    plan = plan or Plan()
    sent = received = 0
    for unit in units:
        if plan.replicated:
            gradients = steps * unit.reduced_bytes * sum(one.rows * one.row for one in unit.trained)
            sent += gradients
            received += gradients
            continue
        here, elsewhere = _split(unit.parameters, nodes, node)
        gathers = unit.gathered_bytes * _gathers(unit, steps, plan)
        sent += gathers * here
        received += gathers * elsewhere
        here, elsewhere = _split(unit.trained, nodes, node)
        reductions = unit.reduced_bytes * steps * (1 if plan.reduced_once else plan.micro_batches)
        sent += reductions * elsewhere
        received += reductions * here
    return {"steps": steps, "sent": sent, "received": received}


def _gathers(unit: Unit, steps: int, plan: Plan) -> int:
    if not unit.reshards:
        return max(0, steps * (1 if plan.kept_gathered else plan.micro_batches) - 1)
    # Nothing may need the backward pass of a unit that is not trained.
    return steps * plan.micro_batches * (2 if unit.trained else 1)


def _split(parameters: Sequence[Parameter], nodes: Sequence[int], node: int) -> tuple[int, int]:
    """Elements in the shards of the node's ranks, and those of the others."""
    here = sum(
        one.row * _shard(one.rows, len(nodes), rank)
        for one in parameters
        for rank, its in enumerate(nodes)
        if its == node
    )
    return here, sum(one.rows * one.row for one in parameters) - here


def _shard(rows: int, ranks: int, rank: int) -> int:
    """As torch.chunk splits: equal pieces, the last with rows shorter, and those after it empty."""
    piece = -(-rows // ranks)
    return max(0, min(rows, (rank + 1) * piece) - rank * piece)
