import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from benchmarks.parts import loop_setting
from tests.training.small_model import save_small_model
from training.activations import checkpoint_activations
from training.causal_loss import CausalLoss
from training.compile import compile_blocks
from training.config import CHECKPOINTING
from training.gpu_peaks import GIB, find_gpu
from training.memory_advice import advise, largest_batch, relief, remedy
from training.memory_plan import ModelShape, Workload, activation_bytes, plan_memory

QWEN_1_5B = loop_setting.QWEN_1_5B | {"model_type": "qwen2"}
SHAPE = ModelShape.of(QWEN_1_5B)
WORK = Workload(batch_size=8, seq_len=1024, split_over=2)


def gpu(name: str) -> Any:
    return find_gpu(f"NVIDIA {name}")


@pytest.mark.parametrize(
    "config",
    [
        QWEN_1_5B,
        {**QWEN_1_5B, "tie_word_embeddings": False, "num_hidden_layers": 3},
        {**QWEN_1_5B, "model_type": "llama", "num_hidden_layers": 2, "tie_word_embeddings": False},
        {**QWEN_1_5B, "model_type": "mistral", "head_dim": 64, "num_hidden_layers": 2},
    ],
)
def test_parameters_are_counted_as_the_model_has_them(config: dict[str, Any]) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    assert ModelShape.of(config).parameters == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("work", "measured_gib"),
    [
        (replace(WORK, precision="bf16", exchange=False), 22.7),
        (replace(WORK, precision="mixed", exchange=False), 27.0),
        (replace(WORK, precision="bf16", exchange=False, compiled=False), 34.5),
    ],
    ids=["bf16, compiled", "mixed, compiled", "bf16, eager"],
)
def test_the_plan_agrees_with_peaks_seen_on_two_h200(work: Workload, measured_gib: float) -> None:
    """Peaks of an earlier loop of the same kind (FSDP2, chunked loss), 8 x 1024 tokens on each of two H200s."""
    assert plan_memory(SHAPE, work).peak / GIB == pytest.approx(measured_gib, rel=0.15)


def small(compiled: bool, how: str, layers: int) -> tuple[ModelShape, float]:
    """A model's shape and the bytes its forward leaves for backward, counted storage by storage; seed 0."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=512,
        hidden_size=192,
        intermediate_size=1120,
        num_hidden_layers=layers,
        num_attention_heads=3,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    objective = CausalLoss(Qwen2ForCausalLM(config).to(torch.bfloat16))
    checkpoint_activations(objective, how)
    if compiled:
        torch._dynamo.reset()
        compile_blocks(
            objective, pytest.fail, recompute_pointwise=how == "pointwise", backend="aot_eager_decomp_partition"
        )
    weights = {parameter.untyped_storage().data_ptr() for parameter in objective.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    tokens = torch.randint(0, 512, (4, 128))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        objective(input_ids=tokens, labels=tokens)
    return ModelShape.of(config.to_dict()), sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize(
    ("compiled", "how"),
    [(False, how) for how in CHECKPOINTING if how != "pointwise"] + [(True, how) for how in CHECKPOINTING],
)
def test_activations_are_those_that_autograd_really_keeps(compiled: bool, how: str) -> None:
    (shape, two), (larger, three) = small(compiled, how, 2), small(compiled, how, 3)
    work = Workload(batch_size=4, seq_len=128, split_over=1, activation_checkpointing=how, compiled=compiled)
    planned = activation_bytes(larger, work, 2) - activation_bytes(shape, work, 2)
    assert three - two == pytest.approx(planned, rel=0.05)


def test_weights_and_optimizer_are_split_and_activations_are_not() -> None:
    two, eight = plan_memory(SHAPE, WORK), plan_memory(SHAPE, replace(WORK, split_over=8))
    assert eight.parts["weights"] * 4 == two.parts["weights"]
    assert eight.parts["optimizer"] * 4 == two.parts["optimizer"]
    assert eight.parts["activations"] == two.parts["activations"]


def test_each_way_to_save_memory_saves_some() -> None:
    by_checkpointing = [plan_memory(SHAPE, replace(WORK, activation_checkpointing=how)).peak for how in CHECKPOINTING]
    assert by_checkpointing == sorted(by_checkpointing, reverse=True)
    assert len(set(by_checkpointing)) == len(CHECKPOINTING)
    assert plan_memory(SHAPE, replace(WORK, chunk_tokens=512)).peak < plan_memory(SHAPE, WORK).peak
    assert plan_memory(SHAPE, WORK).peak < plan_memory(SHAPE, replace(WORK, keep_gathered=True)).peak
    accumulating = replace(WORK, micro_batches=4)
    whole = replace(accumulating, reduce_each_micro_batch=False)
    assert plan_memory(SHAPE, WORK).peak < plan_memory(SHAPE, accumulating).peak < plan_memory(SHAPE, whole).peak


HEADS: dict[str, dict[str, Any]] = {
    "plain": {},
    "capped": {"model_type": "gemma2", "final_logit_softcapping": 30.0},
    "unknown": {"model_type": "of tomorrow"},
}


def test_logits_that_the_model_makes_itself_are_planned_whole() -> None:
    of_type = {kind: ModelShape.of(QWEN_1_5B | more) for kind, more in HEADS.items()}
    planned = {kind: plan_memory(shape, replace(WORK, batch_size=2)).parts["logits"] for kind, shape in of_type.items()}
    assert planned["unknown"] == 2 * 1024 * SHAPE.vocab * 12, "as torch's own loss takes on CPU, counted"
    assert planned["plain"] < planned["capped"] < planned["unknown"] / 2


def test_advice_takes_the_fastest_way_that_fits() -> None:
    l4 = replace(WORK, split_over=8)
    on_h200 = advise(SHAPE, WORK, gpu("H200"))
    assert on_h200 is not None
    assert on_h200.keep_gathered
    modest = advise(SHAPE, replace(l4, batch_size=2), gpu("L4"))
    assert modest is not None
    assert modest.activation_checkpointing == "none"
    large = advise(SHAPE, replace(l4, batch_size=24), gpu("L4"))
    assert large is not None
    assert large.activation_checkpointing == "selective"
    assert advise(SHAPE, replace(l4, batch_size=1000), gpu("L4")) is None


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    work = replace(WORK, split_over=4)
    batch = largest_batch(SHAPE, work, gpu("L4"))
    assert batch > 0
    assert plan_memory(SHAPE, replace(work, batch_size=batch)).fits(gpu("L4"))
    assert not plan_memory(SHAPE, replace(work, batch_size=batch + 1)).fits(gpu("L4"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batch_size": 24, "split_over": 8}, r"--activation_checkpointing selective or --batch_size \d+ would fit"),
        ({"batch_size": 1000, "split_over": 8}, r"--batch_size \d+ would fit"),
        (
            {"batch_size": 7, "split_over": 8, "keep_gathered": True},
            r"--keep_gathered off or --batch_size \d+ would fit",
        ),
        (
            {"seq_len": 16384, "split_over": 8, "batch_size": 9},
            r"--batch_size \d+ --activation_checkpointing full would",
        ),
        ({"split_over": 1}, r"not even --batch_size 1 fits L4: take more GPUs, or a lower --seq_len"),
    ],
)
def test_what_does_not_fit_is_told_with_changes_that_do(changes: dict[str, Any], said: str) -> None:
    work = replace(WORK, **changes)
    assert not plan_memory(SHAPE, work).fits(gpu("L4"))
    told = remedy(SHAPE, work, gpu("L4"))
    assert re.match(said, told), told
    for offer in told.removesuffix(" would fit").split(" or ") if "would fit" in told else []:
        words = offer.removeprefix("--").split(" --")
        asked: dict[str, Any] = dict(word.split() for word in words)
        if "batch_size" in asked:
            asked["batch_size"] = int(asked["batch_size"])
        if "keep_gathered" in asked:
            asked["keep_gathered"] = asked["keep_gathered"] == "on"
        assert plan_memory(SHAPE, replace(work, **asked)).fits(gpu("L4")), offer


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batch_size": 24}, r"--activation_checkpointing selective or --batch_size \d+ would fit"),
        ({"batch_size": 4}, "--activation_checkpointing pointwise or --batch_size 2 takes less"),
        ({"batch_size": 1, "keep_gathered": True}, "--keep_gathered off takes less"),
        ({"batch_size": 2, "activation_checkpointing": "full"}, "--batch_size 1 takes less"),
        ({"batch_size": 1, "activation_checkpointing": "full"}, "take more GPUs, or a lower --seq_len"),
    ],
)
def test_what_ran_out_of_memory_is_told_what_takes_less_also_where_the_plan_had_room(
    changes: dict[str, Any], said: str
) -> None:
    told = relief(SHAPE, replace(WORK, split_over=8, **changes), gpu("L4"))
    assert re.fullmatch(said, told), told


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "--activation_checkpointing full or --batch_size 4 takes less"),
        ({"batch_size": 1, "activation_checkpointing": "full"}, "take more GPUs, or a lower --seq_len"),
    ],
)
def test_what_ran_out_of_memory_without_a_plan_is_told_what_always_takes_less(
    changes: dict[str, Any], said: str
) -> None:
    assert relief(None, replace(WORK, **changes), gpu("L4")) == said
    assert relief(SHAPE, replace(WORK, **changes), None) == said


def test_the_line_says_what_takes_the_room_and_whether_it_fits() -> None:
    line = plan_memory(SHAPE, WORK).line(gpu("L4"))
    assert line.startswith("memory plan: ")
    for word in ("weights 2.9", "optimizer 5.8", "activations", "does not fit L4"):
        assert word in line
    assert plan_memory(SHAPE, WORK).line(gpu("H200")).endswith(": fits H200")


def test_a_model_directory_is_planned_from_its_config(tmp_path: Any) -> None:
    import json

    weights = save_small_model(tmp_path, tokenizer=False)
    shape = ModelShape.of(json.loads((tmp_path / "config.json").read_text()))
    assert shape.parameters == sum(w.numel() for name, w in weights.items() if name != "lm_head.weight")
