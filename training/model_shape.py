"""What the memory plan and MFU need to know of a model, asked of the model itself: it may be on the meta device."""

from collections.abc import Mapping
from typing import Any

from training.config import TINY_QWEN2
from training.errors import TrainingError, first_line
from training.gpu_peaks import flops_per_token
from training.memory_plan import ModelShape
from training.model_source import check_model_exists, tiny_qwen2


def shape_of(module: Any) -> ModelShape | None:
    """None for a model for which there is no plan."""
    return ModelShape.found_in(module.config.to_dict(), parameters_of(module))


def shape_named(model_id: str, seq_len: int) -> ModelShape | None:
    """As shape_of, of the model that has this name, from its config.json alone. Raises TrainingError."""
    file = check_model_exists(model_id)
    if file is None:
        assert model_id == TINY_QWEN2
        return ModelShape.of({"model_type": "qwen2", **tiny_qwen2(seq_len)})
    # config.json leaves out what is its type's default, so transformers has to read it.
    from training.weights import model_on_meta

    try:
        return shape_of(model_on_meta(file.parent, named=model_id))
    except TrainingError:
        raise
    except Exception as error:
        raise TrainingError(f"--model_id {model_id}: {file} cannot be read: {first_line(error)}") from error


def parameters_of(module: Any) -> int:
    """Of tied weights, one."""
    return sum(parameter.numel() for parameter in module.parameters())


def model_flops_per_token(module: Any, seq_len: int) -> float | None:
    """Forward and backward of one token; None where a token does not pass through all parameters."""
    config = module.config
    layers, hidden = (getattr(config, name, None) for name in ("num_hidden_layers", "hidden_size"))
    if layers is None or hidden is None or _has_experts(config.to_dict()):
        return None
    return flops_per_token(parameters_of(module), layers, hidden, seq_len)


def _has_experts(config: Mapping[str, Any]) -> bool:
    return any(
        _has_experts(value)
        if isinstance(value, Mapping)
        else "experts" in str(name) and isinstance(value, int) and value > 1
        for name, value in config.items()
    )
