"""Whether the named model exists and what its config says, asked before any rank starts: this imports no torch."""

from pathlib import Path
from typing import Any

from training.config import TINY_QWEN2
from training.errors import TrainingError, first_line

BYTE_VOCABULARY = 256 + 3  # the byte values, then padding, begin and end of text


def tiny_qwen2(seq_len: int) -> dict[str, Any]:
    """The tiny model, as a Qwen2Config takes it."""
    hidden = 128
    return {
        "vocab_size": BYTE_VOCABULARY,
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": max(2048, seq_len),
        "tie_word_embeddings": False,
        # Large models start at 0.02; at this width that is far too small, and learning starts tens of steps later.
        "initializer_range": hidden**-0.5,
        "use_cache": False,
    }


def check_model_exists(model_id: str) -> Path | None:
    """Where the model's config.json lies on this machine; None for the tiny model, which has none.

    Raises TrainingError where there is no such model.
    """
    if model_id == TINY_QWEN2:
        return None
    if Path(model_id).is_dir():
        if not (Path(model_id) / "config.json").is_file():
            raise TrainingError(f"--model_id {model_id}: the directory has no config.json")
        return Path(model_id) / "config.json"
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(model_id, "config.json"))
    except Exception as error:
        raise TrainingError(
            f"--model_id {model_id}: neither {TINY_QWEN2} nor a model directory, and the Hugging Face hub gives "
            f"no such model: {first_line(error)}"
        ) from error
