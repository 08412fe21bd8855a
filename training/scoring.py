"""A batch's loss and the likeliest tokens without all logits at once, where no gradient is asked for."""

import torch
from torch.nn import functional

from training.packing import NOT_PREDICTED

CHUNK_TOKENS = 1024
"""With 152,000 words a chunk's logits take 0.6 GB in float32."""


def score_in_chunks(
    hidden: torch.Tensor,
    head: torch.Tensor,
    labels: torch.Tensor,
    *,
    soft_cap: float | None = None,
    chunk_tokens: int = CHUNK_TOKENS,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of losses (nats) and the likeliest token of each place, like `labels`.

    `hidden` (tokens, width), `head` (words, width), `labels` (tokens,) with NOT_PREDICTED where nothing counts.
    """
    loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
    likeliest = []
    for states, targets in zip(hidden.split(chunk_tokens), labels.split(chunk_tokens), strict=True):
        logits = functional.linear(states, head)
        if soft_cap is not None:
            logits = logits.div_(soft_cap).tanh_().mul_(soft_cap)
        logits = logits.float()
        loss += functional.cross_entropy(logits, targets, ignore_index=NOT_PREDICTED, reduction="sum")
        likeliest.append(logits.argmax(-1))
    return loss, torch.cat(likeliest)
