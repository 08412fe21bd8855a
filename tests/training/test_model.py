import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.arguments import config
from tests.training.small_model import save_small_model
from training.causal_loss import CausalLoss
from training.config import TrainConfig
from training.data import open_dataset
from training.errors import FinalError, TrainingError
from training.failure import final_unless_outage
from training.model import LanguageModel, load_model, open_model
from training.model_files import model_files, tokenizer_of
from training.model_shape import shape_named
from training.model_source import check_model_exists
from training.tokenizer import load_tokenizer


def first_batch(settings: TrainConfig, model: LanguageModel) -> dict[str, torch.Tensor]:
    return open_dataset(settings, model.vocab_size).train_batch(0, 0, 0, 1, 2).tensors()


def test_the_tiny_model_is_the_same_for_the_same_seed() -> None:
    first, second, other = (load_model(config(seed=seed)).module.state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_an_untrained_tiny_model_guesses_about_evenly() -> None:
    model = load_model(config())
    loss, tokens = CausalLoss(model.module)(**first_batch(config(), model))
    assert 5.0 < loss.item() / int(tokens) < 6.5, "ln(259) is 5.56"


def test_a_model_directory_is_loaded_with_its_own_tokenizer_and_trained_on(tmp_path: Path) -> None:
    weights = save_small_model(tmp_path)
    settings = config(model_id=tmp_path, seq_len=16)
    check_model_exists(settings.model_id)
    model = load_model(settings)
    loaded = model.module.state_dict()
    assert all(torch.equal(loaded[name], weights[name]) for name in weights), "not the weights that were saved"
    assert next(model.module.parameters()).dtype == torch.float32
    batch = first_batch(settings, model)
    assert int(batch["input_ids"].max()) < model.vocab_size
    loss, tokens = CausalLoss(model.module)(**batch)
    assert int(tokens) > 0
    loss.backward()


def test_random_tokens_need_no_tokenizer(tmp_path: Path) -> None:
    save_small_model(tmp_path, tokenizer=False)
    settings = config(model_id=tmp_path, seq_len=16, dataset="random")
    model = load_model(settings)
    loss, _ = CausalLoss(model.module)(**first_batch(settings, model))
    assert loss.item() > 0


def test_a_directory_without_a_tokenizer_is_refused_for_text(tmp_path: Path) -> None:
    save_small_model(tmp_path, tokenizer=False)
    settings = config(model_id=tmp_path, seq_len=16)
    with pytest.raises(TrainingError, match=f"--model_id {tmp_path}: no tokenizer"):
        open_dataset(settings, 96)


def test_a_sequence_longer_than_the_model_takes_is_refused(tmp_path: Path) -> None:
    save_small_model(tmp_path)
    with pytest.raises(TrainingError, match=r"--seq_len 4096: .* at most 64 tokens"):
        load_model(config(model_id=tmp_path, seq_len=4096))


def test_a_directory_that_holds_no_model_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=f"--model_id {tmp_path}: .*config.json"):
        check_model_exists(str(tmp_path))


@pytest.mark.parametrize("model_id", ["no-such-owner/no such model", "/no/such/directory"])
def test_a_model_that_cannot_exist_is_refused_in_one_line(model_id: str) -> None:
    with pytest.raises(TrainingError) as refusal:
        check_model_exists(model_id)
    assert f"--model_id {model_id}: " in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_how_a_model_generates_goes_into_its_checkpoints_however_it_was_loaded(tmp_path: Path) -> None:
    save_small_model(tmp_path)
    asked = {"eos_token_id": [5, 7], "do_sample": True, "temperature": 0.7, "repetition_penalty": 1.1}
    (tmp_path / "generation_config.json").write_text(json.dumps(asked))
    settings = config(model_id=tmp_path, seq_len=16)
    for model in (open_model(settings).model, load_model(settings)):
        carried = json.loads(model_files(model.module)["generation_config.json"])
        assert {name: carried.get(name) for name in asked} == asked


@pytest.mark.parametrize("damaged", ["{", "[]", '{"max_new_tokens": 0, "num_beams": 4, "num_return_sequences": 8}'])
def test_settings_for_generating_that_cannot_be_read_keep_no_model_from_training(damaged: str, tmp_path: Path) -> None:
    save_small_model(tmp_path)
    (tmp_path / "generation_config.json").write_text(damaged)
    assert "generation_config.json" in model_files(open_model(config(model_id=tmp_path, seq_len=16)).model.module)


def test_a_model_opened_without_its_weights_is_filled_with_them(tmp_path: Path) -> None:
    weights = save_small_model(tmp_path)
    unfilled = open_model(config(model_id=tmp_path, seq_len=16))
    assert unfilled.whole_because is None
    assert all(parameter.is_meta for parameter in unfilled.model.module.parameters())
    unfilled.fill(torch.device("cpu"))
    filled = unfilled.model.module.state_dict()
    assert all(torch.equal(filled[name], weights[name]) for name in weights)


def test_a_model_without_safetensors_is_read_whole_and_the_reason_told(tmp_path: Path) -> None:
    weights = save_small_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    unfilled = open_model(config(model_id=tmp_path, seq_len=16))
    assert unfilled.whole_because == "there are no safetensors files"
    unfilled.fill(torch.device("cpu"))
    assert torch.equal(unfilled.model.module.state_dict()["model.norm.weight"], weights["model.norm.weight"])


def change_config(directory: Path, **changes: Any) -> None:
    file = directory / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def in_the_driver(model_id: Path) -> object:
    return check_model_exists(str(model_id))


def for_a_plan(model_id: Path) -> object:
    return shape_named(str(model_id), 16)


def on_a_rank(model_id: Path) -> object:
    return open_model(config(model_id=model_id, seq_len=16))


@pytest.mark.parametrize("asked", [in_the_driver, for_a_plan, on_a_rank])
@pytest.mark.parametrize(
    ("changes", "how"),
    [
        ({"quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}}, "fp8"),
        ({"quantization_config": {}}, "by its config.json"),
        ({"text_config": {"quantization_config": {"quant_method": "gptq", "bits": 4}}}, "gptq"),
    ],
)
def test_a_quantised_model_is_refused_wherever_it_is_asked_for(
    asked: Callable[[Path], object], changes: dict[str, Any], how: str, tmp_path: Path
) -> None:
    save_small_model(tmp_path, tokenizer=False)
    change_config(tmp_path, quantization_config=None)
    asked(tmp_path)
    change_config(tmp_path, **changes)
    with pytest.raises(TrainingError) as refusal:
        asked(tmp_path)
    assert str(refusal.value) == f"--model_id {tmp_path}: is quantised ({how}): name the unquantised model"


def save_composite(directory: Path, model_type: str) -> None:
    """One for text and images, of small sizes, with weights of its text alone."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"vocab_size": 96, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    described = AutoConfig.for_model(model_type, text_config=sizes | heads)
    AutoModelForCausalLM.from_config(described.get_text_config()).save_pretrained(directory)
    described.save_pretrained(directory)


@pytest.mark.parametrize("asked", [in_the_driver, for_a_plan, on_a_rank])
def test_a_model_for_more_than_text_is_refused_and_the_type_to_name_is_told(
    asked: Callable[[Path], object], tmp_path: Path
) -> None:
    save_composite(tmp_path, "gemma3")
    with pytest.raises(TrainingError) as refusal:
        asked(tmp_path)
    assert str(refusal.value) == (
        f"--model_id {tmp_path}: is of the type gemma3, which takes more than text: "
        "name a model of the type gemma3_text"
    )


def test_where_transformers_makes_the_text_s_part_alone_that_is_trained(tmp_path: Path) -> None:
    save_composite(tmp_path, "qwen3_5")
    check_model_exists(str(tmp_path))
    model = open_model(config(model_id=tmp_path, seq_len=16)).model
    assert (model.vocab_size, model.module.config.model_type) == (96, "qwen3_5_text")
    assert not model.module.config.use_cache


def test_a_model_of_parts_that_transformers_cannot_make_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no_such_type", "text_config": {}}')
    with pytest.raises(TrainingError, match=f"--model_id {tmp_path}: cannot be loaded: .*no_such_type"):
        check_model_exists(str(tmp_path))


def test_a_model_whose_files_lack_a_weight_is_not_trained_from_a_random_one(tmp_path: Path) -> None:
    weights = save_small_model(tmp_path, tokenizer=False)
    del weights["model.norm.weight"]
    (tmp_path / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    with pytest.raises(TrainingError, match=f"--model_id {tmp_path}: its files do not hold model.norm.weight"):
        on_a_rank(tmp_path)


@pytest.mark.parametrize("asked", [in_the_driver, for_a_plan, on_a_rank])
@pytest.mark.parametrize("damaged", ["{", "[]", '{"text_config": 5}'])
def test_a_config_that_is_none_is_refused_by_name(
    asked: Callable[[Path], object], damaged: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(damaged)
    with (
        pytest.raises(FinalError, match=f"--model_id {tmp_path}: .*config.json cannot be read: "),
        final_unless_outage(),
    ):
        asked(tmp_path)


@pytest.mark.parametrize("opened", [load_model, open_model])
def test_a_damaged_config_is_refused_in_one_line(opened: Callable[[TrainConfig], object], tmp_path: Path) -> None:
    save_small_model(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(FinalError, match=f"--model_id {tmp_path}: .*cannot be (loaded|read): "), final_unless_outage():
        opened(config(model_id=tmp_path, seq_len=16))


def test_a_rank_reads_its_tokenizer_once_for_its_data_and_its_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoTokenizer

    save_small_model(tmp_path)
    read: Any = AutoTokenizer.from_pretrained
    reads = []

    def counted(model_id: str) -> Any:
        reads.append(model_id)
        return read(model_id)

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", counted)
    ids = load_tokenizer(str(tmp_path)).encode(["to be"])[0]
    assert tokenizer_of(str(tmp_path))("to be").input_ids[: len(ids)] == ids
    assert reads == [str(tmp_path)]
