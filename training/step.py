"""One optimizer step, the same for one process and for many."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Replicate

from training.causal_loss import CausalLoss
from training.errors import TrainingError
from training.optimizer import ShardedAdamW, local
from training.sharding import Sharding, prepare_backward
from training.step_clock import BACKWARD, FORWARD, OPTIMIZER, StepClock

MAX_GRADIENT_NORM = 1.0
Batch = Mapping[str, torch.Tensor]
"""What CausalLoss takes, on the device. Every rank has as many batches in a step, of any number of rows."""


@dataclass(frozen=True)
class StepFigures:
    """Mean loss over all ranks' tokens (nats), and the gradient's norm before it is clipped."""

    loss: float
    gradient_norm: float
    tokens: int = 0
    """That a loss was taken of, over all ranks."""


class PendingFigures:
    """A step's figures on their way from the device: reading them waits for that step and for none after it."""

    def __init__(self, figures: torch.Tensor) -> None:
        self._arrived = None
        self._figures = figures
        if figures.is_cuda:
            self._figures = torch.empty(figures.shape, dtype=figures.dtype, pin_memory=True)
            self._figures.copy_(figures, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def read(self) -> StepFigures:
        """Raises TrainingError, on every rank alike, where loss or gradient is not finite; the step changed nothing.

        Read a step late, when the next is already queued, it costs no time.
        """
        if self._arrived is not None:
            self._arrived.synchronize()
        loss, norm, tokens = self._figures.tolist()
        if tokens == 0:
            raise TrainingError("a step's batches have no token to learn from: every label is ignored")
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise TrainingError(f"the loss is {loss} and the gradient norm {norm}: lower --lr")
        return StepFigures(loss, norm, int(tokens))


class TrainStep:
    """Forward and backward of each batch, then one clipped update, all queued without waiting for the device."""

    def __init__(
        self,
        model: CausalLoss,
        optimizer: ShardedAdamW,
        sharding: Sharding | None = None,
        max_gradient_norm: float = MAX_GRADIENT_NORM,
        clock: StepClock | None = None,
    ) -> None:
        self.clock = clock
        """Told of the step's phases, where somebody wants to know."""
        self.model = model
        self.optimizer = optimizer
        self._sharding = sharding or Sharding()
        self._max_norm = max_gradient_norm
        self._sharded = isinstance(model, FSDPModule)
        self._averaged_over = dist.get_world_size() if self._sharded else 1

    def __call__(self, batches: Sequence[Batch]) -> PendingFigures:
        """The ranks' batches together are the step's: their tokens count alike, wherever they are."""
        return PendingFigures(self.queue(batches))

    def queue(self, batches: Sequence[Batch]) -> torch.Tensor:
        """(loss, gradient norm, tokens) on the device, in float64. No part of it looks at what it computes."""
        totals = torch.zeros(3, dtype=torch.float64, device=batches[0]["input_ids"].device)
        for index, batch in enumerate(batches):
            if len(batches) > 1:
                prepare_backward(self.model, self._sharding, last=index == len(batches) - 1)
            with self._phase(FORWARD):
                loss, tokens = self.model(**batch)
            with self._phase(BACKWARD):
                loss.backward()  # of the sum: how many tokens the other ranks have is not known yet
            totals[0] += loss.detach()
            totals[1] += tokens
        with self._phase(OPTIMIZER):
            return self._update(totals)

    def _update(self, totals: torch.Tensor) -> torch.Tensor:
        """From this rank's sums of losses and tokens."""
        totals[2] = self._squared_norm_of_shards()
        if self._sharded:
            dist.all_reduce(totals)
        loss_sum, tokens, squared_norm = totals.unbind()
        # FSDP averages over the ranks; times their number it is the sum, and over all tokens the mean's gradient.
        norm = squared_norm.sqrt() * (self._averaged_over / tokens)
        clip = (self._max_norm / (norm + 1e-6)).clamp(max=1.0)
        loss = loss_sum / tokens
        broken = ~torch.isfinite(loss * norm)
        self.optimizer.step(
            gradient_scale=(tokens / (self._averaged_over * clip)).float(), skip=broken.to(torch.float32)
        )
        self.optimizer.zero_grad(set_to_none=True)
        return torch.stack([loss, norm, tokens])

    def _phase(self, name: str) -> AbstractContextManager[None]:
        return nullcontext() if self.clock is None else self.clock.phase(name)

    def _squared_norm_of_shards(self) -> torch.Tensor:
        """Such that its sum over all ranks counts each element of the gradient once."""
        gradients = [p.grad for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        owned = [part for part in map(local, gradients) if part.numel()]
        norms = torch._foreach_norm(owned, 2, dtype=torch.float32)
        return torch.stack(norms).double().square().sum() / _copies(gradients[0])


def _copies(gradient: torch.Tensor) -> int:
    """Ranks that hold the same part."""
    if not isinstance(gradient, DTensor):
        return 1
    placements = zip(gradient.placements, gradient.device_mesh.shape, strict=True)
    return math.prod(size for placement, size in placements if isinstance(placement, Replicate))
