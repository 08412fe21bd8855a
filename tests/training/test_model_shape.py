"""Of the sizes that each type has by default; all on the meta device."""

from typing import Any

import pytest
import torch

from training.memory_plan import ModelShape
from training.model_shape import model_flops_per_token, parameters_of, shape_of


def model(model_type: str, **changes: Any) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **changes))


@pytest.mark.parametrize("model_type", ["gemma", "gemma2", "gemma3_text", "granite", "olmo2", "phi3", "qwen3"])
def test_a_dense_gated_model_has_a_shape_that_counts_what_it_has(model_type: str) -> None:
    module = model(model_type)
    shape = shape_of(module)
    assert shape is not None
    assert shape.parameters == pytest.approx(parameters_of(module), rel=0.01)


@pytest.mark.parametrize("model_type", ["gpt2", "gpt_neox", "mixtral", "phi", "qwen3_moe", "starcoder2"])
def test_a_model_with_experts_or_without_gates_has_none_and_so_no_plan(model_type: str) -> None:
    assert shape_of(model(model_type)) is None


@pytest.mark.parametrize("model_type", ["gpt_neox", "phi", "qwen3", "starcoder2"])
def test_a_token_s_operations_are_counted_by_what_the_model_really_has(model_type: str) -> None:
    module = model(model_type, num_hidden_layers=3)
    by_attention = 12.0 * 3 * module.config.hidden_size * 512
    assert model_flops_per_token(module, 512) == 6.0 * parameters_of(module) + by_attention


@pytest.mark.parametrize("model_type", ["mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"])
def test_where_a_token_sees_some_experts_only_nothing_is_claimed(model_type: str) -> None:
    assert model_flops_per_token(model(model_type, num_hidden_layers=2), 512) is None


def test_a_config_whose_sizes_are_no_numbers_has_no_plan() -> None:
    """As Gemma 3n's, whose layers differ."""
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8, "vocab_size": 16}
    assert ModelShape.found_in({**sizes, "intermediate_size": [16, 32]}, 1000) is None
