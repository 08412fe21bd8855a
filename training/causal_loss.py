"""A language model with its loss in one module, so that FSDP's hooks around the root hold what the loss reads."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from training import kernels
from training.attention import use_mask_free_attention
from training.document_attention import documents_for
from training.heads import Head, head_of
from training.loss import IGNORED, linear_cross_entropy
from training.scoring import score_in_chunks


class CausalLoss(nn.Module):  # type: ignore[misc]
    """The summed loss of a transformers causal language model over a batch, and the number of tokens in it.

    Sum and count and not a mean: only so do batches of unequal size add up to what one large batch gives.
    """

    def __init__(self, model: nn.Module, *, chunk_tokens: int = 0, compiled: bool = False) -> None:
        """`chunk_tokens` 0 lets the loss choose; `compiled` lets GPUs have our own kernels for the rest."""
        super().__init__()
        self.model = model
        self.chunk_tokens = chunk_tokens
        self.compiled = compiled
        use_mask_free_attention(model)
        self.head = _head(model)
        """None where it is not known what the model's does: then the model makes its logits, all at once."""

    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor,
        position_ids: torch.Tensor | None = None,
        documents: torch.Tensor | None = None,
        document_bounds: torch.Tensor | None = None,
        *,
        likeliest: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """All (rows, length). labels[i, j] is the token to predict at j, or IGNORED: nothing is shifted here.

        With `documents` and their bounds, as data.Batch has them, no document looks into another. `likeliest` gives the
        likeliest token at each place instead of the count; it is for evaluation and without gradient.
        """
        model: Any = self.model
        told = documents_for(model, documents, document_bounds, input_ids.shape[1])
        known = {"input_ids": input_ids, "position_ids": position_ids, "use_cache": False, **told}
        flat = labels.flatten()
        if self.head is None:
            logits = model(**known).logits.flatten(0, 1).float()
            loss = functional.cross_entropy(logits, flat, ignore_index=IGNORED, reduction="sum")
            return loss, logits.argmax(-1).view_as(labels) if likeliest else (flat != IGNORED).sum()
        hidden = model.base_model(**known).last_hidden_state.flatten(0, 1)
        if self.head.scale != 1.0:
            hidden = hidden * self.head.scale  # as good as the logits', which are many more
        weight, soft_cap = model.get_output_embeddings().weight, self.head.soft_cap
        if likeliest:
            loss, tokens = score_in_chunks(hidden, weight, flat, soft_cap=soft_cap)
            return loss, tokens.view_as(labels)
        compiled = self.compiled and kernels.run_on(hidden.device)
        loss = linear_cross_entropy(
            hidden, weight, flat, soft_cap=soft_cap, chunk_tokens=self.chunk_tokens, compiled=compiled
        )
        return loss, (flat != IGNORED).sum()


def _head(model: Any) -> Head | None:
    module = model.get_output_embeddings()
    return head_of(model.config.to_dict()) if type(module) is nn.Linear and module.bias is None else None
