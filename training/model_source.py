"""Whether the named model exists and what its config says, asked before any rank starts.

Imports no torch, but for a model of several parts.
"""

import json
from pathlib import Path
from typing import Any

from training.config import TINY_QWEN2
from training.errors import TrainingError, first_line

BYTE_VOCABULARY = 256 + 3  # the byte values, then padding, begin and end of text
_QUANTISED = ("quantization_config", "compression_config")


class NoSuchModelError(TrainingError):
    """Nothing of the name is to be found from this machine."""


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

    Raises NoSuchModelError, and TrainingError for a model that cannot be trained.
    """
    if model_id == TINY_QWEN2:
        return None
    file = _config_file(model_id)
    if "text_config" in check_unquantised(model_id, file):
        _check_parts(model_id, file)
    return file


def check_unquantised(model_id: str, file: Path) -> dict[str, Any]:
    """What `file`, the model's config.json, says. Raises TrainingError where that cannot be read, or is of codes."""
    try:
        described: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        parts = [described, described.get("text_config") or {}]
        told = [part[name] for part in parts for name in _QUANTISED if part.get(name) is not None]
        methods = [how.get("quant_method", "by its config.json") for how in told]
    except (OSError, ValueError, AttributeError) as error:
        raise TrainingError(f"--model_id {model_id}: {file} cannot be read: {first_line(error)}") from error
    if methods:
        raise TrainingError(f"--model_id {model_id}: is quantised ({methods[0]}): name the unquantised model")
    return described


def _check_parts(model_id: str, file: Path) -> None:
    """Which part of a model is made as its language model, only transformers can tell."""
    from training.weights import model_on_meta

    try:
        model_on_meta(file.parent, named=model_id)
    except TrainingError:
        raise
    except Exception as error:
        raise TrainingError(f"--model_id {model_id}: cannot be loaded: {first_line(error)}") from error


def _config_file(model_id: str) -> Path:
    if Path(model_id).is_dir():
        if not (Path(model_id) / "config.json").is_file():
            raise NoSuchModelError(f"--model_id {model_id}: the directory has no config.json")
        return Path(model_id) / "config.json"
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(model_id, "config.json"))
    except Exception as error:
        raise NoSuchModelError(
            f"--model_id {model_id}: neither {TINY_QWEN2} nor a model directory, and the Hugging Face hub gives "
            f"no such model: {first_line(error)}"
        ) from error
