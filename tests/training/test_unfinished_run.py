"""A run of the same spec that did not finish, and the one that goes on where it ended."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from tests.training import checkpoint_ranks, ranks
from tests.training.arguments import arguments, config
from tests.training.job import Finished, run_driver
from tests.training.small_model import save_small_model
from training import checkpoint
from training.checkpoint_files import Progress, step_folder, write_marker, write_progress
from training.config import TrainConfig
from training.errors import TrainingError
from training.learner import resume
from training.run_directory import RunDirectory
from training.steps import delete_old
from training.storage import Folder, LocalFolder
from training.unfinished_run import RUN, goes_on_from

STEM, STACK, MODEL = "ray-train-fsdp-llm-0123456789", "a-stack", "sha256:of-a-model"
LOST, LATER, NOW = f"{STEM}-aaaaaa-1", f"{STEM}-aaaaaa-2", f"{STEM}-bbbbbb-1"
"""Two attempts on a head that was lost, and one on the next."""


def submitted(place: Folder, run_id: str = NOW, **changes: object) -> TrainConfig:
    given = {"storage_path": place, "run_id": run_id, "spec_stem": STEM, "stack": STACK, "steps": 60} | changes
    return config(**{name: value for name, value in given.items() if value is not None})


def run_of(place: Folder, run_id: str) -> RunDirectory:
    run = RunDirectory.of(config(storage_path=place, run_id=run_id))
    run.create()
    return run


def with_checkpoints(
    place: Folder, run_id: str, *steps: int, marked: bool = True, stack: str = STACK, model: str = MODEL
) -> list[Folder]:
    """Of a run that has begun after those that are there."""
    begun = run_of(place, run_id)
    if run_id.startswith(f"{STEM}-") and not begun.folder.has(RUN):
        goes_on_from(submitted(place, run_id, stack=stack), model, lambda _: None)
    folders = [step_folder(run_of(place, run_id).checkpoints, step) for step in steps]
    for folder, step in zip(folders, steps, strict=True):
        folder.make()
        write_progress(folder, Progress(step=step, losses=[], eval_before=None))
        if marked:
            write_marker(folder, step, world_size=4)
    return folders


def found(settings: TrainConfig) -> tuple[Folder | None, list[str]]:
    said: list[str] = []
    RunDirectory.of(settings).folder.make()
    return goes_on_from(settings, MODEL, said.append), said


def test_a_run_goes_on_from_the_furthest_checkpoint_of_those_of_its_spec_on_any_head(place: Folder) -> None:
    _, furthest = with_checkpoints(place, LOST, 20, 40)
    with_checkpoints(place, LATER, 20)
    with_checkpoints(place, f"{STEM}0-aaaaaa-1", 50)
    with_checkpoints(place, "ray-train-fsdp-llm-9876543210-aaaaaa-1", 50)
    run_of(place, NOW)
    before = place.sizes()
    assert found(submitted(place)) == (
        furthest,
        [f"goes on from {furthest} (step 40) of run {LOST}, which did not finish; jobRunId set anew begins at step 1"],
    )
    (written,) = place.sizes().keys() - before.keys()
    assert written.endswith(RUN) and place.sizes().items() >= before.items(), "the other runs are only read"


@pytest.mark.parametrize(
    ("whose", "told"), [({"stack": "another"}, "is of another stack"), ({"model": "sha256:b"}, "is of another model")]
)
def test_the_run_of_another_stack_or_model_is_passed_over_and_named(
    place: Folder, whose: dict[str, Any], told: str
) -> None:
    with_checkpoints(place, LOST, 40, **whose)
    assert found(submitted(place)) == (None, [f"run {LOST} of the same inputs is passed over: it {told}"])


def test_a_finished_run_of_another_stack_makes_no_repetition(place: Folder) -> None:
    (newest,) = with_checkpoints(place, LOST, 40)
    with_checkpoints(place, LATER, 60, stack="another")
    run_of(place, LATER).folder.write_json("result.json", {"losses": []})
    assert found(submitted(place))[0] == newest


@pytest.mark.parametrize("content", [None, "cut sh", "[]", '{"stack": "a-stack"}'])
def test_a_run_that_does_not_say_whose_it_is_is_nobodys(place: Folder, content: str | None) -> None:
    with_checkpoints(place, LOST, 40)
    run = run_of(place, LOST).folder
    run.delete(RUN)
    if content is not None:
        run.write(RUN, content)
    told = f"run {LOST} of the same inputs is passed over: it has no run.json that says whose it is"
    assert found(submitted(place)) == (None, [told])


def test_a_run_that_did_not_finish_after_one_that_did_is_gone_on_from(place: Folder) -> None:
    with_checkpoints(place, LOST, 40)
    with_checkpoints(place, LATER, 50, 60)
    run_of(place, LATER).folder.write_json("result.json", {"losses": []})
    (newest,) = with_checkpoints(place, f"{STEM}-000000-1", 20)
    with_checkpoints(place, f"{STEM}-ffffff-1")
    assert found(submitted(place))[0] == newest


def test_after_one_that_has_finished_a_run_is_a_repetition_and_begins_anew(place: Folder) -> None:
    with_checkpoints(place, LOST, 20)
    with_checkpoints(place, LATER, 40, 60)
    run_of(place, LATER).folder.write_json("result.json", {"losses": []})
    assert found(submitted(place)) == (None, [])


def test_a_checkpoint_of_the_last_step_is_passed_over_for_one_that_leaves_a_step_to_train(place: Folder) -> None:
    earlier, _ = with_checkpoints(place, LOST, 40, 60)
    assert found(submitted(place))[0] == earlier
    with_checkpoints(place, LATER, 60)
    assert found(submitted(place, steps=40))[0] is None


def test_a_checkpoint_that_is_not_whole_is_named_with_its_run(place: Folder) -> None:
    (whole,) = with_checkpoints(place, LOST, 20)
    with_checkpoints(place, LOST, 40, marked=False)
    newest, said = found(submitted(place))
    assert newest == whole
    assert said[0] == f"run {LOST}: checkpoint step-000040 is incomplete and ignored: it has no COMPLETE.json"


@pytest.mark.parametrize(
    "changes", [{"spec_stem": None, "stack": None}, {"resume_from": "/shared/x"}, {"checkpoint_every": 0}]
)
def test_a_run_that_was_not_asked_to_looks_for_none(tmp_path: Path, changes: dict[str, Any]) -> None:
    with_checkpoints(LocalFolder(tmp_path), LOST, 20)
    assert found(submitted(LocalFolder(tmp_path), **changes)) == (None, [])


def test_a_run_with_a_checkpoint_of_its_own_looks_for_none(place: Folder) -> None:
    with_checkpoints(place, LOST, 40)
    with_checkpoints(place, NOW, 20)
    assert found(submitted(place)) == (None, [])


@pytest.mark.parametrize("what", ["names", "read_json"])
def test_storage_that_does_not_say_what_it_holds_is_an_error_and_no_fresh_start(
    place: Folder, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with_checkpoints(place, LOST, 40)

    def out(*_: object) -> None:
        raise TimeoutError("out of reach")

    monkeypatch.setattr(type(place), what, out)
    with pytest.raises(TrainingError, match=f"--storage_path: {place} cannot be read: out of reach") as told:
        found(submitted(place))
    assert isinstance(told.value.__cause__, OSError)


def driven(place: Path, run_id: str, **changes: object) -> Finished:
    words = {"storage_path": place, "run_id": run_id, "spec_stem": STEM, "stack": STACK} | changes
    return run_driver(arguments(**words))[1]


def test_the_driver_says_where_a_run_goes_on_and_puts_it_on_record_beside_resume_from(tmp_path: Path) -> None:
    driven(tmp_path, LOST)
    (newest,) = with_checkpoints(LocalFolder(tmp_path), LOST, 40)
    finished = driven(tmp_path, NOW)
    assert len(finished.said(f"goes on from {newest} (step 40) of run {LOST}")) == 1
    told = finished.record["arguments"]
    assert (told["resume_from"], told["goes_on_from"]) == (None, str(newest))
    assert not {"spec_stem", "stack"} & told.keys(), "between two runs they would be a difference that is none"


def test_the_checkpoint_of_a_model_folder_that_was_written_anew_is_passed_over(tmp_path: Path) -> None:
    model, runs = tmp_path / "model", tmp_path / "runs"
    save_small_model(model)
    driven(runs, LOST, model_id=model)
    (newest,) = with_checkpoints(LocalFolder(runs), LOST, 40)
    assert driven(runs, LATER, model_id=model).said(f"goes on from {newest}")
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (model / "model.safetensors").write_bytes(weights)
    finished = driven(runs, NOW, model_id=model)
    assert len(finished.said("is passed over: it is of another model")) == 2
    assert finished.record["arguments"]["goes_on_from"] is None


def gone_on_with(rank: int, world_size: int, folder: Path) -> None:
    """The model of a lost run, in a new one that goes on from it and in one that was told to resume from it."""
    module, optimizer, dataset = ranks.build(sharded=True)
    lost = step_folder(RunDirectory.of(submitted(LocalFolder(folder), LOST)).checkpoints, 2)
    data = dataset.position(2 * ranks.GLOBAL_ROWS)
    losses = [(step, loss) for step, loss, _ in ranks.train(module, optimizer, dataset, range(1, 3))]
    evaluated = {"loss": 5.5, "perplexity": 244.7, "tokens": 9.0}
    checkpoint.save(lost, module, optimizer, Progress(step=2, losses=losses, eval_before=evaluated, data=data))
    told = {}
    for argument in ("goes_on_from", "resume_from"):
        said: list[str] = []
        resumed = _resumed(submitted(LocalFolder(folder)), str(lost), argument, said.append)
        told[argument] = [resumed.step, len(resumed.losses), resumed.eval_before, *said]
    with pytest.raises(TrainingError) as gone:
        _resumed(submitted(LocalFolder(folder)), f"{folder}/gone", "goes_on_from", print)
    told["gone"] = [str(gone.value)]
    if dist.get_rank() == 0:
        (folder / "told.json").write_text(json.dumps(told))


def _resumed(settings: TrainConfig, whence: str, argument: str, say: Callable[[str], None]) -> Progress:
    module, optimizer, dataset = ranks.build(sharded=True)
    learner: Any = SimpleNamespace(root=module, optimizer=optimizer, dataset=dataset)
    named: dict[str, Any] = {argument: whence}
    given = dataclasses.replace(settings, **named)
    attempt: Any = SimpleNamespace(config=given, run=RunDirectory.of(given), rank=dist.get_rank(), number=1, say=say)
    progress, own = resume(learner, attempt)
    assert own is None, "the other run's checkpoint is not this one's to delete"
    return progress


def test_the_run_that_goes_on_has_what_the_lost_one_knew_its_first_evaluation_too(tmp_path: Path) -> None:
    ranks.run_ranks(1, gone_on_with, tmp_path)
    lost = step_folder(RunDirectory.of(submitted(LocalFolder(tmp_path), LOST)).checkpoints, 2)
    evaluated = {"loss": 5.5, "perplexity": 244.7, "tokens": 9.0}
    said = f"resumed from step 2 of {lost} (attempt 1)"
    assert ranks.told(tmp_path) == {
        "goes_on_from": [2, 2, evaluated, said],
        "resume_from": [2, 2, None, said],
        "gone": [f"to go on (another jobRunId begins at step 1): {tmp_path}/gone: no such directory"],
    }


def test_until_a_run_has_reported_the_checkpoint_before_the_last_step_stays(tmp_path: Path) -> None:
    ranks.run_ranks(1, checkpoint_ranks.kept_to_the_end, tmp_path)
    assert ranks.told(tmp_path) == ["step-000002", "step-000003"]


def reported(place: Folder, **changes: Any) -> tuple[list[str], list[str]]:
    """What is left of the checkpoints of a run that has reported, and what was said."""
    said: list[str] = []
    settings = submitted(place, **changes)
    run = RunDirectory.of(settings)
    attempt: Any = SimpleNamespace(config=settings, run=run, say=said.append)
    delete_old(attempt)
    return sorted(run.checkpoints.names()), said


def test_a_run_that_has_reported_keeps_as_many_checkpoints_as_were_asked_for(
    place: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = with_checkpoints(place, NOW, 20, 40, 60)
    three = ["step-000020", "step-000040", "step-000060"]
    assert reported(place, keep_checkpoints=0) == (three, [])
    assert reported(place, keep_checkpoints=1, resume_from=first) == (["step-000020", "step-000060"], [])

    def out(*_: object) -> None:
        raise TimeoutError("out of reach")

    monkeypatch.setattr(type(place), "delete", out)
    told = "older checkpoints than --keep_checkpoints 1 cannot be deleted: out of reach"
    assert reported(place, keep_checkpoints=1) == (["step-000020", "step-000060"], [told])
