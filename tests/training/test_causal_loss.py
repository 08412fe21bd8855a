"""Tiny models with seed 3; the reference is the model's own logits."""

from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.training.batches import next_token_batch
from training.attention import use_mask_free_attention
from training.causal_loss import CausalLoss
from training.heads import KNOWN
from training.loss import IGNORED

WORDS, LENGTH = 97, 12


def tiny(model_type: str, **changes: Any) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {
        "vocab_size": WORDS,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 64,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    torch.manual_seed(3)
    config = AutoConfig.for_model(model_type, **sizes | changes)
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():  # untrained logits are too even to tell a wrong head
        parameter.data.mul_(4)
    return model.train()


OF_TYPE: dict[str, dict[str, Any]] = {
    "cohere": {"logit_scale": 0.3},
    "cohere2": {"logit_scale": 0.3},
    "gemma2": {"final_logit_softcapping": 2.0, "query_pre_attn_scalar": 8},
    "gemma3_text": {"final_logit_softcapping": 2.0, "query_pre_attn_scalar": 8},
    "granite": {"logits_scaling": 3.0},
    "mixtral": {"num_local_experts": 4},
    "qwen2_moe": {"num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "seed_oss": {"attention_dropout": 0.0, "residual_dropout": 0.0},
}


def rows(count: int = 3) -> torch.Tensor:
    return torch.randint(0, WORDS, (count, LENGTH + 1), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("model_type", sorted(KNOWN))
def test_the_loss_is_that_of_the_models_own_logits(model_type: str) -> None:
    model = tiny(model_type, **OF_TYPE.get(model_type, {}))
    batch = next_token_batch(rows())
    batch["labels"] = batch["labels"].clone()
    batch["labels"][0, :5] = IGNORED
    logits = model(input_ids=batch["input_ids"]).logits.flatten(0, 1)
    expected = functional.cross_entropy(logits, batch["labels"].flatten(), ignore_index=IGNORED, reduction="sum")
    expected_gradient = torch.autograd.grad(expected, model.get_input_embeddings().weight)[0]

    objective = CausalLoss(model, chunk_tokens=8)
    assert objective.head is not None
    loss, count = objective(**batch)
    loss.backward()
    assert int(count) == 3 * LENGTH - 5
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    difference = model.get_input_embeddings().weight.grad - expected_gradient
    assert float(difference.norm() / expected_gradient.norm()) < 1e-5


def test_a_model_whose_head_is_not_known_makes_its_own_logits() -> None:
    model = tiny("phi")  # its head has a bias
    objective = CausalLoss(model)
    assert objective.head is None
    batch = next_token_batch(rows())
    loss, _ = objective(**batch)
    logits = model(input_ids=batch["input_ids"]).logits.flatten(0, 1)
    expected = functional.cross_entropy(logits, batch["labels"].flatten(), reduction="sum")
    assert loss.item() == pytest.approx(float(expected), rel=1e-6)


def test_documents_of_a_row_do_not_see_each_other() -> None:
    model = tiny("qwen2")
    objective = CausalLoss(model, chunk_tokens=8)
    first, second = rows(1)[:, :6], rows(2)[1:, :8]
    apart = [objective(**next_token_batch(part))[0] for part in (first, second)]

    def packed(separate: bool) -> torch.Tensor:
        batches = [next_token_batch(part) for part in (first, second)]
        joined = {name: torch.cat([batch[name] for batch in batches], dim=1) for name in ("input_ids", "labels")}
        positions = torch.cat([torch.arange(5), torch.arange(7)]).unsqueeze(0)
        apart = {"documents": torch.tensor([[0] * 5 + [1] * 7]), "document_bounds": torch.tensor([0, 5, 12])}
        loss: torch.Tensor = objective(**joined, position_ids=positions, **(apart if separate else {}))[0]
        return loss

    assert float(packed(True)) == pytest.approx(float(sum(apart)), rel=1e-5)
    assert abs(float(packed(False)) - float(packed(True))) > 1e-3, "without their numbers the second sees the first"


@pytest.mark.parametrize("model_type", ["qwen2", "gemma2", "granite", "phi"])
def test_an_evaluation_is_told_the_likeliest_tokens(model_type: str) -> None:
    model = tiny(model_type, **OF_TYPE.get(model_type, {}))
    objective, batch = CausalLoss(model, chunk_tokens=8), next_token_batch(rows())
    with torch.no_grad():
        loss, tokens = objective(**batch, likeliest=True)
        assert torch.equal(tokens, model(input_ids=batch["input_ids"]).logits.argmax(-1))
        assert loss.item() == pytest.approx(objective(**batch)[0].item(), rel=1e-6)


def test_layers_with_windows_keep_the_masks_they_need() -> None:
    assert not use_mask_free_attention(tiny("mistral", sliding_window=4))
    assert use_mask_free_attention(tiny("mistral", sliding_window=None))


def test_no_forward_waits_for_the_device_to_look_at_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import masking_utils

    def looked(position_ids: torch.Tensor) -> None:
        raise AssertionError("transformers reads the position ids on the CPU")

    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", looked)
    model = tiny("qwen2")
    with pytest.raises(AssertionError, match="position ids"):
        model(input_ids=rows(), use_cache=False)
    CausalLoss(model, chunk_tokens=8)(**next_token_batch(rows()))
