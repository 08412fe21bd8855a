"""One optimizer step, the same for one process and for many."""

import math
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from training.errors import TrainingError
from training.model import next_token_loss

MAX_GRADIENT_NORM = 1.0


@dataclass(frozen=True)
class StepFigures:
    """Mean loss over all ranks' tokens (nats), and the gradient's norm before it is clipped."""

    loss: float
    gradient_norm: float


def train_step(module: torch.nn.Module, optimizer: torch.optim.Optimizer, rows: torch.Tensor) -> StepFigures:
    """`rows` are this rank's. Raises TrainingError, on every rank alike, where loss or gradient is not finite."""
    loss = next_token_loss(module, rows)  # parameters are gathered, block by block
    loss.backward()  # gathered again; gradients are reduced and scattered to the ranks that own them
    norm = torch.nn.utils.clip_grad_norm_(module.parameters(), MAX_GRADIENT_NORM)
    if isinstance(norm, DTensor):
        norm = norm.full_tensor()  # over all shards, not this rank's part of it
    total = loss.detach().clone()
    dist.all_reduce(total)
    figures = StepFigures(total.item() / dist.get_world_size(), norm.item())
    if not (math.isfinite(figures.loss) and math.isfinite(figures.gradient_norm)):
        raise TrainingError(f"the loss is {figures.loss} and the gradient norm {figures.gradient_norm}: lower --lr")
    optimizer.step()  # local: each rank updates what it owns
    optimizer.zero_grad(set_to_none=True)
    return figures
