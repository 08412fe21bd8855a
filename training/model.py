"""The model: a tiny Qwen2 made here, or any causal language model that from_pretrained loads."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from training.config import TINY_QWEN2, TrainConfig
from training.errors import TrainingError, first_line
from training.model_identity import hub_commit
from training.model_source import BYTE_VOCABULARY, tiny_qwen2

_NEWEST = "main"


@dataclass(frozen=True)
class LanguageModel:
    module: torch.nn.Module
    vocab_size: int


def load_model(config: TrainConfig) -> LanguageModel:
    """Float32 weights on the CPU, the same on every rank. Raises TrainingError where the model cannot be loaded."""
    if config.model_id == TINY_QWEN2:
        return LanguageModel(_tiny_qwen2(config), BYTE_VOCABULARY)
    return _pretrained(config)


@dataclass(frozen=True)
class UnfilledModel:
    """A model to be sharded first and given its weights then."""

    model: LanguageModel
    fill: Callable[[torch.device], None]
    """After shard(): each rank reads its own shards. Does nothing where there is nothing left to read."""
    whole_because: str | None
    """Why every rank has read the whole model instead; None where it has not."""
    directory: Path | None = None
    """Where its files lie on this node; None for a model that is made here."""


def open_model(config: TrainConfig) -> UnfilledModel:
    """As load_model, but no rank ever holds the whole model where its files allow that."""
    if config.model_id == TINY_QWEN2:
        return UnfilledModel(load_model(config), lambda device: None, None)
    from training.weights import load_shards, model_directory, model_on_meta, weight_files, why_not_by_shards

    directory = model_directory(config.model_id)
    try:
        module: Any = model_on_meta(directory)
        files = weight_files(directory)
    except (OSError, ValueError) as error:
        raise _cannot_be_loaded(config, error) from _cause(error)
    reason = why_not_by_shards(module, files)
    if reason is not None:
        # At the commit that the config came from: the hub's main branch may have moved since.
        whole = _pretrained(config, hub_commit(config.model_id, directory) or _NEWEST)
        return UnfilledModel(whole, lambda device: None, reason, directory)
    _check_length(config, module)
    model = LanguageModel(module, module.config.vocab_size)
    return UnfilledModel(model, lambda device: load_shards(module, files, device), None, directory)


def _tiny_qwen2(config: TrainConfig) -> torch.nn.Module:
    # From its own module: the Auto classes would import more for the same result.
    from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
    from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM

    torch.manual_seed(config.seed)
    module: torch.nn.Module = Qwen2ForCausalLM(Qwen2Config(**tiny_qwen2(config.seq_len)))
    return module


def _pretrained(config: TrainConfig, revision: str = _NEWEST) -> LanguageModel:
    """`revision` is the hub's; it says nothing of a model folder."""
    from transformers import AutoModelForCausalLM

    try:
        module: Any
        module, told = AutoModelForCausalLM.from_pretrained(
            config.model_id, dtype=torch.float32, revision=revision, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError, UnpicklingError) as error:
        raise _cannot_be_loaded(config, error) from _cause(error)
    if told["missing_keys"]:  # transformers would begin with random ones there
        raise TrainingError(f"--model_id {config.model_id}: its files do not hold {min(told['missing_keys'])}")
    module.config.use_cache = False
    _check_length(config, module)
    return LanguageModel(module, module.config.vocab_size)


def _cannot_be_loaded(config: TrainConfig, error: BaseException) -> TrainingError:
    return TrainingError(f"--model_id {config.model_id}: cannot be loaded: {first_line(error)}")


def _cause(error: Exception) -> Exception:
    """transformers raises an OSError of no number for a file that is bad: no storage that may be back tomorrow."""
    return error if getattr(error, "errno", None) is not None else ValueError(first_line(error))


def _check_length(config: TrainConfig, module: Any) -> None:
    longest = getattr(module.config, "max_position_embeddings", config.seq_len)
    if config.seq_len > longest:
        raise TrainingError(f"--seq_len {config.seq_len}: --model_id {config.model_id} takes at most {longest} tokens")
