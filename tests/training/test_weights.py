import json
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.training import weight_ranks
from tests.training.ranks import run_ranks
from tests.training.small_model import save_small_model
from tests.training.step_ranks import CPU
from training.errors import FinalError, TrainingError
from training.failure import final_unless_outage
from training.weights import load_shards, model_directory, model_on_meta, weight_files, why_not_by_shards

DOWN = "model.layers.0.mlp.down_proj.weight"


@pytest.mark.parametrize("nodes", [(0, 0, 0), (0, 0, 1, 1)], ids=["fsdp, uneven shards", "hsdp"])
def test_ranks_that_read_their_shards_only_hold_together_what_from_pretrained_holds(
    nodes: tuple[int, ...], tmp_path: Path
) -> None:
    save_small_model(tmp_path / "model", tokenizer=False)
    run_ranks(len(nodes), weight_ranks.load_and_compare, tmp_path / "ranks", tmp_path / "model", nodes)
    for rank in range(len(nodes)):
        told = json.loads((tmp_path / "ranks" / f"told-{rank}").read_text())
        assert told["names"]
        assert told["equal"] == [], "weights that differ"
        assert told["loss"][0] == pytest.approx(told["loss"][1], rel=1e-6)
        assert told["tied"], "head and embedding are one weight"


def test_a_single_process_reads_files_that_are_split_and_of_another_dtype(tmp_path: Path) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2}
    torch.manual_seed(2)
    saved = Qwen2ForCausalLM(Qwen2Config(vocab_size=96, num_key_value_heads=1, tie_word_embeddings=False, **sizes))
    frequencies = saved.model.rotary_emb.inv_freq.clone()
    saved.to(torch.bfloat16).save_pretrained(tmp_path, max_shard_size="8KB")
    files = weight_files(tmp_path)
    assert len(set(files.values())) > 1
    model = model_on_meta(tmp_path)
    load_shards(model, files, CPU)
    for name, weight in model.state_dict().items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, saved.state_dict()[name].float()), name
    assert torch.equal(model.model.rotary_emb.inv_freq, frequencies)


def test_a_model_without_a_weight_is_not_read_by_shards(tmp_path: Path) -> None:
    save_small_model(tmp_path, tokenizer=False)
    model, files = model_on_meta(tmp_path), weight_files(tmp_path)
    del files["model.norm.weight"]
    assert why_not_by_shards(model, files) == "the safetensors files have no model.norm.weight"
    (tmp_path / "model.safetensors").unlink()
    assert why_not_by_shards(model, weight_files(tmp_path)) == "there are no safetensors files"


def test_weights_of_another_shape_are_refused_by_name(tmp_path: Path) -> None:
    save_small_model(tmp_path, tokenizer=False)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"intermediate_size": 40}))
    with pytest.raises(TrainingError, match=r"--model_id: model.layers.0.mlp.\w+.weight has the shape"):
        load_shards(model_on_meta(tmp_path), weight_files(tmp_path), CPU)


def save_as(directory: Path, kind: torch.dtype) -> None:
    """One weight of the small model as another type."""
    file = directory / "model.safetensors"
    weights = load_file(file)
    weights[DOWN] = weights[DOWN].to(kind)
    save_file(weights, file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("kind", "told"), [(torch.float8_e4m3fn, "F8_E4M3"), (torch.int8, "I8"), (torch.uint8, "U8"), (torch.int32, "I32")]
)
def test_codes_are_no_weights_and_are_refused_by_file_and_name(kind: torch.dtype, told: str, tmp_path: Path) -> None:
    save_small_model(tmp_path, tokenizer=False)
    save_as(tmp_path, kind)
    with pytest.raises(TrainingError) as refusal:
        load_shards(model_on_meta(tmp_path), weight_files(tmp_path), CPU)
    assert str(refusal.value) == (
        f"--model_id: {tmp_path}/model.safetensors: {DOWN} is quantised ({told}): name the unquantised model"
    )


@pytest.mark.parametrize("kind", [torch.float64, torch.float16])
def test_a_weight_of_any_float_is_read(kind: torch.dtype, tmp_path: Path) -> None:
    saved = save_small_model(tmp_path, tokenizer=False)[DOWN]
    save_as(tmp_path, kind)
    model = model_on_meta(tmp_path)
    load_shards(model, weight_files(tmp_path), CPU)
    assert torch.equal(model.state_dict()[DOWN], saved.to(kind).float())


def lost_its_end(directory: Path) -> str:
    file = directory / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    return str(file)


def never_fetched(directory: Path) -> str:
    file = directory / "model.safetensors"
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    return str(file)


def indexed_by_nothing(directory: Path) -> str:
    file = directory / "model.safetensors.index.json"
    file.write_text("{}")
    return str(file)


def indexed_where_it_is_not(directory: Path) -> str:
    weight_map = dict.fromkeys([*weight_files(directory), "model.norm.weight"], "model.safetensors")
    weights = load_file(directory / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, directory / "model.safetensors")
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return str(directory / "model.safetensors")


@pytest.mark.parametrize("damage", [lost_its_end, never_fetched, indexed_by_nothing, indexed_where_it_is_not])
def test_a_damaged_file_is_named_and_ends_the_run(damage: Callable[[Path], str], tmp_path: Path) -> None:
    save_small_model(tmp_path, tokenizer=False)
    named = damage(tmp_path)
    with pytest.raises(FinalError, match=f"--model_id: {named} cannot be read: "), final_unless_outage():
        load_shards(model_on_meta(tmp_path), weight_files(tmp_path), CPU)


def test_a_directory_is_its_own_and_a_model_that_cannot_be_fetched_is_refused(tmp_path: Path) -> None:
    assert model_directory(str(tmp_path)) == tmp_path
    with pytest.raises(FinalError, match="--model_id no such model: "), final_unless_outage():
        model_directory("no such model")


def test_a_download_that_broke_off_is_worth_another_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    class ReadTimeout(Exception):
        """As the hub's HTTP client has it: no OSError."""

    def broken(*_: object, **__: object) -> str:
        raise ReadTimeout("the read timed out")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", broken)
    with pytest.raises(TrainingError, match="cannot be downloaded: the read timed out") as told, final_unless_outage():
        model_directory("someone/model")
    assert not isinstance(told.value, FinalError)


def test_no_rank_holds_the_whole_model_while_it_loads(tmp_path: Path) -> None:
    """Some 60 million parameters, stored in bfloat16 and trained in float32 by four ranks."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 8}
    with torch.device("meta"):
        model = Qwen2ForCausalLM(Qwen2Config(vocab_size=16_384, num_key_value_heads=2, **sizes))
    model.to_empty(device="cpu").to(torch.bfloat16)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.01)
    model.save_pretrained(tmp_path / "model")
    whole = sum(parameter.numel() * 4 for parameter in model.parameters())
    del model

    def grew(by_shards: bool) -> list[int]:
        folder = tmp_path / str(by_shards)
        run_ranks(4, weight_ranks.load_and_measure, folder, tmp_path / "model", by_shards)
        return [int((folder / f"grew-{rank}").read_text()) for rank in range(4)]

    assert whole > 200e6
    # A quarter, the pages of the file that hold it (an eighth), and one weight on its way.
    assert max(grew(by_shards=True)) < 0.6 * whole
    assert min(grew(by_shards=False)) > 1.0 * whole, "else the bound above says nothing"
