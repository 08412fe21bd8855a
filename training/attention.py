"""Causal attention through torch's own flash kernels, without a mask and without waiting for the GPU."""

from typing import Any

import torch

_NAME = "training_sdpa"


def use_mask_free_attention(module: torch.nn.Module) -> bool:
    """Make a transformers model take causal order as read. False where its layers need masks, which it then keeps.

    With the implementation called "sdpa" each forward looks on the CPU whether the position ids show packed sequences,
    and so waits for all the GPU has yet to do. Under a name that has no mask function, transformers makes no masks;
    a four-dimensional one that is handed to it is still obeyed (transformers.masking_utils).
    """
    config: Any = getattr(module, "config", None)
    if getattr(config, "_attn_implementation", None) != "sdpa" or _has_windows(config):
        return False
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    AttentionInterface.register(_NAME, sdpa_attention_forward)
    config._attn_implementation = _NAME
    return True


def document_mask(documents: torch.Tensor) -> torch.Tensor:
    """(rows, length) document numbers -> (rows, 1, length, length) of what each token may look at."""
    length = documents.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool, device=documents.device).tril()
    same = documents.unsqueeze(1) == documents.unsqueeze(2)
    return (same & earlier).unsqueeze(1)


def _has_windows(config: Any) -> bool:
    """Layers that look back a limited way, told by type or, in older models, by a window for all."""
    types = getattr(config, "layer_types", None)
    if types is not None:
        return any(kind != "full_attention" for kind in types)
    return getattr(config, "sliding_window", None) is not None
