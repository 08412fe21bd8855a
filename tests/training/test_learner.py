import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist

from benchmarks.parts import loop_setting
from tests.training import ranks
from tests.training.arguments import config
from tests.training.small_model import save_small_model
from training import learner
from training.errors import TrainingError
from training.gpu_peaks import GPUS, Gpu, find_gpu
from training.learner import build, sharding_options
from training.memory_advice import largest_batch
from training.memory_plan import ModelShape, Workload
from training.model_identity import model_identity
from training.sharding import Sharding
from training.step import TrainStep

QWEN_1_5B = ModelShape.of(loop_setting.QWEN_1_5B | {"model_type": "qwen2"})
L4 = next(gpu for gpu in GPUS if gpu.name == "L4")
TWO_NODES = [0, 0, 0, 0, 1, 1, 1, 1]


def decided(gpu: str, **asked: Any) -> tuple[Sharding, list[str]]:
    said: list[str] = []
    known = find_gpu(gpu)
    settings = config(**{"worker_resource": "GPU", "seq_len": 1024} | asked)
    return sharding_options(settings, QWEN_1_5B, known, TWO_NODES, compiled=True, say=said.append), said


def test_a_known_gpu_is_told_what_it_will_hold_before_anything_is_held() -> None:
    options, said = decided("NVIDIA L4")
    assert options.precision == "mixed"
    assert len(said) == 1 and said[0].startswith("memory plan: ") and said[0].endswith("fits L4")


def test_parameters_are_kept_gathered_where_there_is_room_and_not_where_it_was_declined() -> None:
    assert decided("NVIDIA H200")[0].keep_gathered
    assert not decided("NVIDIA H200", keep_gathered="off")[0].keep_gathered
    work = Workload(batch_size=1, seq_len=1024, split_over=8, exchange=False, keep_gathered=True)
    too_many = largest_batch(QWEN_1_5B, work, L4) + 1
    assert not decided("NVIDIA L4", batch_size=too_many)[0].keep_gathered, "with which it would not fit"
    assert decided("NVIDIA L4", batch_size=too_many, keep_gathered="on")[0].keep_gathered, "what was asked for is done"


def test_what_will_not_fit_is_told_with_what_would() -> None:
    assert decided("NVIDIA L4", batch_size=12)[1][1].startswith("it may run out of memory: --activation_checkpointing ")
    asked = Workload(batch_size=1, seq_len=1024, split_over=8, exchange=False)
    fits = largest_batch(QWEN_1_5B, asked, L4)
    assert decided("NVIDIA L4", batch_size=400)[1][1] == f"it may run out of memory: --batch_size {fits} would fit"


@pytest.mark.parametrize(("shape", "gpu"), [(None, find_gpu("NVIDIA L4")), (QWEN_1_5B, None)])
def test_without_a_known_gpu_or_shape_there_is_no_plan_and_nothing_is_kept_by_itself(
    shape: ModelShape | None, gpu: Gpu | None
) -> None:
    said: list[str] = []
    options = sharding_options(config(), shape, gpu, TWO_NODES, compiled=False, say=said.append)
    assert (options.keep_gathered, said) == (False, [])


def test_on_cpus_training_is_in_float32_unless_asked_otherwise() -> None:
    for asked, precision in ({}, "fp32"), ({"precision": "mixed"}, "mixed"):
        options = sharding_options(
            config(worker_resource="trainer", **asked), None, None, [0, 0], compiled=False, say=print
        )
        assert options.precision == precision


def told_of_models(rank: int, world_size: int, folder: Path) -> None:
    if rank == 0:
        save_small_model(folder / "model", tokenizer=False)
    dist.barrier()
    for name in (folder / "model", "tiny-qwen2"):
        settings = config(model_id=name, dataset="random", seq_len=16, worker_resource="trainer")
        learner = build(settings, ranks.CPU, [0, 0], prepared=None, say=lambda line: None)
        (folder / f"{Path(name).name}-{rank}.json").write_text(json.dumps(learner.model))


def test_rank_0_tells_which_files_the_model_was_read_from(tmp_path: Path) -> None:
    ranks.run_ranks(2, told_of_models, tmp_path)
    told = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    model = str(tmp_path / "model")
    assert told == {
        "model-0": {"identity": model_identity(model, Path(model))},
        "model-1": None,
        "tiny-qwen2-0": None,
        "tiny-qwen2-1": None,
    }


def built_and_said(rank: int, world_size: int, folder: Path) -> None:
    from transformers import PhiConfig, PhiForCausalLM

    sizes = {"vocab_size": 97, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    PhiForCausalLM(PhiConfig(**sizes, num_attention_heads=2, pad_token_id=None)).save_pretrained(folder / "phi")
    save_small_model(folder / "qwen2", tokenizer=False)
    for name in ("phi", "qwen2"):
        said: list[str] = []
        settings = config(model_id=folder / name, dataset="random", seq_len=16, worker_resource="trainer")
        build(settings, ranks.CPU, [0], prepared=None, say=said.append)
        (folder / f"{name}.txt").write_text("\n".join(said))


def full_gpu(*_: Any) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory.")


def ran_out_of_memory(rank: int, world_size: int, folder: Path) -> None:
    settings = config(dataset="random", seq_len=16, batch_size=6, worker_resource="trainer")
    with patch.object(learner, "shard", full_gpu), pytest.raises(TrainingError) as building:
        build(settings, ranks.CPU, [0], prepared=None, say=print)
    built = build(settings, ranks.CPU, [0], prepared=None, say=print)
    with patch.object(TrainStep, "queue", full_gpu), pytest.raises(TrainingError) as stepping:
        built.step([])
    (folder / "told.txt").write_text(f"{building.value}\n{stepping.value}")


def test_where_a_gpu_s_memory_is_not_enough_the_run_says_what_takes_less(tmp_path: Path) -> None:
    ranks.run_ranks(1, ran_out_of_memory, tmp_path)
    less = "--activation_checkpointing full or --batch_size 3 takes less"
    said = f"a GPU has not enough memory: {less} (CUDA out of memory.)"
    assert (tmp_path / "told.txt").read_text().splitlines() == [said, said]


def test_a_loss_that_needs_all_logits_at_once_says_so(tmp_path: Path) -> None:
    ranks.run_ranks(1, built_and_said, tmp_path)
    assert (tmp_path / "phi.txt").read_text() == (
        "the logits of all tokens are there at once: the loss knows no chunks for models of the type phi"
    )
    assert (tmp_path / "qwen2.txt").read_text() == ""
