"""What backward finds of a block's forward, and what it computes again."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from training.config import CHECKPOINTING
from training.errors import TrainingError
from training.sharding import transformer_blocks

NONE, POINTWISE, SELECTIVE, FULL = CHECKPOINTING


def checkpoint_activations(module: torch.nn.Module, how: str) -> None:
    """Before blocks are compiled and sharded. Raises TrainingError where the model has nothing of the kind.

    none keeps everything. pointwise leaves it to the compiler (compile_blocks): what one pass over memory makes again
    is not kept, a third of the memory for some percent of time. selective computes each block's feed-forward part
    again: for a fifth more work it saves two thirds, since what it makes is several times as wide as the model. full
    keeps the blocks' inputs alone, for a third more work.
    """
    if how in (NONE, POINTWISE):
        return
    blocks = transformer_blocks(module)
    parts = blocks if how == FULL else [part for block in blocks if (part := getattr(block, "mlp", None)) is not None]
    if not parts or len(parts) != len(blocks):
        raise TrainingError(
            f"--activation_checkpointing {how}: this model's blocks have no feed-forward part called mlp; use full"
        )
    keep_random_state = any(isinstance(child, torch.nn.Dropout) and child.p > 0 for child in module.modules()) or bool(
        getattr(getattr(module, "config", None), "attention_dropout", 0.0)
    )
    for part in parts:
        # The method and not the module: names in state dicts stay, and FSDP's hooks run once, around both forwards.
        part.forward = _checkpointed(part.forward, keep_random_state)


def _checkpointed(forward: Callable[..., Any], keep_random_state: bool) -> Callable[..., Any]:
    @wraps(forward)
    def again_in_backward(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=keep_random_state, **kwargs)

    return again_in_backward
