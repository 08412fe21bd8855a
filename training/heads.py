"""What models make of their last hidden states: which of them the loss can take in chunks. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# As their classes in transformers say; each is tested to give the model's own loss.
_PLAIN = {
    *("ernie4_5", "exaone4", "gemma", "glm", "glm4", "gpt_neox", "llama", "ministral", "mistral", "mixtral", "olmo"),
    *("olmo2", "olmo3", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "stablelm"),
    *("starcoder2",),
}
_SCALED = {"cohere", "cohere2", "granite"}
_CAPPED = {"gemma2", "gemma3_text"}
KNOWN = frozenset(_PLAIN | _SCALED | _CAPPED)
"""Model types."""


@dataclass(frozen=True)
class Head:
    """Logits are the hidden states times the head's weights, times `scale`, and then bent to stay below `soft_cap`."""

    scale: float = 1.0
    soft_cap: float | None = None


def head_of(config: Mapping[str, Any]) -> Head | None:
    """From config.json with its defaults; None for a model type that is not known, whose head may do anything."""
    kind = config.get("model_type")
    if kind in _SCALED:
        return Head(scale=1 / config["logits_scaling"] if kind == "granite" else config["logit_scale"])
    if kind in _CAPPED:
        return Head(soft_cap=config["final_logit_softcapping"])
    return Head() if kind in _PLAIN else None
