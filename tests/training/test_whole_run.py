"""A run with all that one may ask for, on a real Ray cluster, and a second that goes on from it with fewer ranks."""

import gzip
import json
from pathlib import Path

import pytest
import torch

from infra.local_nodes import LocalCluster
from tests.training.data_files import numbered_texts, write_jsonl
from tests.training.job import Finished, submit
from training.storage import LocalFolder
from training.token_files import read_manifest

pytestmark = [pytest.mark.local, pytest.mark.full]

ASKED = """--sharding hsdp --steps 6 --accumulate 2 --checkpoint_every 2 --keep_checkpoints 1 --eval_every 3
    --profile_steps 4 --warm_up_steps 2 --lr_floor 0.1 --export_dtype bfloat16 --activation_checkpointing selective"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def data(folder: Path) -> str:
    return str(write_jsonl(folder / "texts.jsonl", [{"text": text} for text in numbered_texts(400)]))


@pytest.fixture(scope="module")
def run(cluster: LocalCluster, folder: Path, data: str) -> Finished:
    arguments = [*ASKED.split(), "--dataset", data, "--export_to", str(folder / "exported")]
    finished = submit(cluster, folder, arguments)
    assert finished.status == "SUCCEEDED", "\n".join(finished.lines[-40:])
    return finished


def run_folder(folder: Path) -> Path:
    return folder / "runs" / folder.name / "ray-train-fsdp-llm"


def test_it_learns_of_the_user_s_own_texts(run: Finished, folder: Path) -> None:
    record = run.record
    assert [step for step, _ in record["losses"]] == list(range(1, 7))
    assert record["eval"]["after"]["loss"] < record["eval"]["before"]["loss"]
    assert 0 <= record["eval"]["after"]["token_accuracy"] <= 1
    assert len(run.said("eval at step 3")) == 1
    assert record["tokens_per_step"] == 4 * 2 * 2 * 64
    (prepared,) = (folder / "runs" / "datasets").iterdir()
    manifest = read_manifest(LocalFolder(prepared))
    assert manifest is not None and manifest["train"]["rows"] == record["data"]["sequences"]
    assert len(run.said("data: ")) == 1


def test_the_newest_checkpoint_alone_is_kept(run: Finished, folder: Path) -> None:
    assert [path.name for path in (run_folder(folder) / "checkpoints").iterdir()] == ["step-000006"]
    assert run.record["checkpoints"]["count"] == 3
    assert run.record["checkpoint"]["path"].endswith("step-000006")


def test_the_export_is_a_model_that_transformers_loads(run: Finished, folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder / "exported")
    assert model.dtype == torch.bfloat16
    text = torch.tensor([list(b"1 and so on ")])
    assert model(input_ids=text, labels=text).loss < 5


def test_where_the_time_went_is_on_record_and_in_tensorboard_and_a_trace_of_the_step_lies_beside(
    run: Finished, folder: Path
) -> None:
    record = run.record
    assert set(record["split_seconds"]) == {"input", "forward", "backward", "optimizer", "gpu_waited"}
    parts = sum(record["split_seconds"][phase]["median"] for phase in ("input", "forward", "backward", "optimizer"))
    assert 0.5 < parts / record["step_seconds"]["median"] < 1.5
    assert record["split_seconds"]["gpu_waited"] is None and record["mfu"] is None, "there is no GPU"
    assert record["profile"]["4"]["communication"] > 0
    traces = sorted((run_folder(folder) / "profile").iterdir())
    assert [trace.name for trace in traces] == [f"step-000004-rank-0000{rank}.json.gz" for rank in range(4)]
    assert json.loads(gzip.decompress(traces[0].read_bytes()))["traceEvents"]
    (events,) = (run_folder(folder) / "tensorboard").iterdir()
    assert b"train/gradient_norm" in events.read_bytes()


def test_two_ranks_go_on_at_the_sample_where_four_stopped(
    run: Finished, cluster: LocalCluster, tmp_path: Path, data: str, folder: Path
) -> None:
    again = f"--dataset {data} --num_workers 2 --steps 8 --eval_batches 2 --storage_path {folder / 'runs'}"
    finished = submit(cluster, tmp_path, [*again.split(), "--resume_from", run.record["checkpoint"]["path"]])
    assert finished.status == "SUCCEEDED", "\n".join(finished.lines[-40:])
    assert not finished.said("trained on other data")
    assert [step for step, _ in finished.record["losses"]] == list(range(1, 9))
    assert finished.record["losses"][:6] == run.record["losses"]
    assert finished.record["data"]["key"] == run.record["data"]["key"]
    assert len(list((folder / "runs" / "datasets").iterdir())) == 1, "prepared once"
    assert finished.record["eval"]["before"]["loss"] == pytest.approx(run.record["eval"]["after"]["loss"], rel=1e-4)


def test_an_export_over_something_else_is_refused_before_a_rank_starts(
    run: Finished, cluster: LocalCluster, tmp_path: Path, folder: Path
) -> None:
    finished = submit(cluster, tmp_path, ["--export_to", str(folder / "exported"), "--steps", "1"])
    assert finished.status == "FAILED"
    owner = f"{run.record['arguments']['storage_path']} {run.record['run_id']}"
    assert finished.errors == [
        f"--export_to {folder / 'exported'}: holds config.json already, taken by run {owner}: name a new directory"
    ]
    assert finished.record["attempts"] == []
