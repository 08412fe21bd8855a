"""Attention that stays within documents where several share a sequence.

A mask of (rows, 1, seq_len, seq_len) says it everywhere, and ranks on CPU use one: ours, or the one transformers makes
of position_ids that restart. On a GPU a mask keeps scaled_dot_product_attention from its flash kernel; there torch's
own variable-length attention takes the documents' bounds instead: no mask, key heads shared among query heads without
copies, and nothing computed between documents.
"""

import inspect
from typing import Any

import torch
from torch.nn.attention.varlen import varlen_attn

from training.attention import document_mask
from training.errors import TrainingError

BY_BOUNDS = "documents_by_bounds"
_TAKES_GROUPED_HEADS = "enable_gqa" in inspect.signature(varlen_attn).parameters
"""torch 2.11 does not yet."""
_LAYERS = {"full_attention", "sliding_attention"}
_NOT_KNOWN_HERE = ("dropout", "softcap", "s_aux", "position_bias")
"""What some models pass to their attention and the kernel has no place for."""


def attend_by_bounds(model: Any, device: torch.device, compute: torch.dtype) -> bool:
    """Let a transformers model take documents by their bounds, where the device can; before anything is compiled.

    `compute` is the type of its activations: flash kernels know 16-bit floats only. False leaves it as it was, and
    documents have to be told by a mask.
    """
    layers = set(getattr(model.config, "layer_types", None) or _LAYERS)
    if device.type != "cuda" or compute not in (torch.bfloat16, torch.float16) or layers - _LAYERS:
        return False
    from transformers import AttentionInterface

    AttentionInterface.register(BY_BOUNDS, attention_by_bounds)
    model.set_attn_implementation(BY_BOUNDS)
    return attends_by_bounds(model)


def attends_by_bounds(model: Any) -> bool:
    return bool(model.config._attn_implementation == BY_BOUNDS)


def documents_for(
    model: Any, documents: torch.Tensor | None, bounds: torch.Tensor | None, length: int
) -> dict[str, Any]:
    """The arguments, besides position_ids, that tell a transformers model of documents; none for plain causal.

    `documents` (rows, length) numbers them, `bounds` (documents + 1,) says where they begin in all rows end to end.
    """
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    if documents is None or bounds is None:
        return {}
    if attends_by_bounds(model):
        # The longest a document can be rather than the longest there is, so that nothing compiles anew for it.
        return {"cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds, "max_length_q": length, "max_length_k": length}
    if model.config._attn_implementation in ALL_MASK_ATTENTION_FUNCTIONS:
        return {}  # transformers finds documents where position_ids restart, and knows of a model's windows too
    return {"attention_mask": document_mask(documents)}


def attention_by_bounds(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int = 0,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """(rows, heads, seq_len, width) to (rows, seq_len, heads, width), as transformers calls an attention function.

    Without bounds a row is one document. Raises TrainingError where the model wants of attention what this has not.
    """
    wanted = [name for name in _NOT_KNOWN_HERE if others.get(name)]
    if wanted or attention_mask is not None:
        raise TrainingError(f"--attention documents: the model's attention needs {wanted or 'a mask'}; use causal")
    rows, heads, length, width = query.shape
    if cu_seq_lens_q is None:
        cu_seq_lens_q = torch.arange(0, rows * length + 1, length, dtype=torch.int32, device=query.device)
        max_length_q = length
    grouped = {}
    if heads != key.shape[1]:
        if _TAKES_GROUPED_HEADS:
            grouped = {"enable_gqa": True}
        else:
            key, value = (part.repeat_interleave(heads // key.shape[1], dim=1) for part in (key, value))
    flat = [part.transpose(1, 2).reshape(rows * length, part.shape[1], width) for part in (query, key, value)]
    attended = varlen_attn(
        *flat,
        cu_seq_lens_q,
        cu_seq_lens_q,
        max_length_q,
        max_length_q,
        scale=scaling,
        window_size=(-1 if sliding_window is None else sliding_window - 1, 0),
        **grouped,
    )
    return attended.view(rows, length, heads, width), None
