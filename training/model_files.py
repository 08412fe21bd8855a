"""What a Hugging Face model directory holds besides weights; a checkpoint carries it so that it stands by itself."""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from training.config import TINY_QWEN2
from training.tokenizer import transformers_tokenizer

MODEL = "model"
"""The folder of a checkpoint in which they lie."""
CONFIG = "config.json"


def model_files(module: torch.nn.Module, tokenizer: Any = None) -> dict[str, bytes]:
    """By name. `tokenizer` is one of transformers' own. Nothing for a module that transformers did not make."""
    _, model = language_model(module)
    if model is None:
        return {}
    described = model.config.to_dict() | {"architectures": [_class_name(model)], "use_cache": True}
    described.pop("_name_or_path", None)
    files = {CONFIG: json.dumps(described, indent=2, sort_keys=True).encode()}
    generation = getattr(model, "generation_config", None)
    if generation is not None:
        files["generation_config.json"] = generation.to_json_string(use_diff=True).encode()
    if tokenizer is not None:
        with tempfile.TemporaryDirectory() as directory:
            tokenizer.save_pretrained(directory)
            files |= {path.name: path.read_bytes() for path in Path(directory).iterdir() if path.is_file()}
    return files


def tokenizer_of(model_id: str) -> Any:
    """transformers' own for a model that has one, else None: it makes up an empty one for a directory without."""
    if model_id == TINY_QWEN2:
        return None
    try:
        tokenizer = transformers_tokenizer(model_id)
    except (OSError, ValueError):
        return None
    return tokenizer if tokenizer("a", add_special_tokens=False)["input_ids"] else None


def language_model(module: torch.nn.Module) -> tuple[str, Any]:
    """What transformers made, and what stands before its names in `module`'s: a loss may be wrapped around it."""
    for name, child in module.named_modules():
        if hasattr(getattr(child, "config", None), "to_dict"):
            return f"{name}." if name else "", child
    return "", None


def _class_name(module: torch.nn.Module) -> str:
    """fully_shard gives a module a class of its own, derived from what it was."""
    return next(kind for kind in type(module).__mro__ if kind.__module__.startswith("transformers.")).__name__
