"""Batches by hand, without a data set."""

import torch


def next_token_batch(rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """What CausalLoss takes, of (rows, length + 1) consecutive tokens."""
    return {"input_ids": rows[:, :-1], "labels": rows[:, 1:]}
