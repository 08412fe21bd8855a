"""A run of the same spec that did not finish, and the one that goes on where it ended."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from tests.training import ranks
from tests.training.arguments import arguments, config
from tests.training.job import run_driver
from training import checkpoint
from training.checkpoint_files import Progress, step_folder, write_marker, write_progress
from training.config import TrainConfig
from training.errors import TrainingError
from training.learner import resume
from training.run_directory import RunDirectory
from training.storage import Folder, LocalFolder
from training.unfinished_run import goes_on_from

STEM = "ray-train-fsdp-llm-0123456789"
LOST, LATER, NOW = f"{STEM}-aaaaaa-1", f"{STEM}-aaaaaa-2", f"{STEM}-bbbbbb-1"
"""Two attempts on a head that was lost, and one on the next."""


def submitted(place: Folder, run_id: str = NOW, **changes: object) -> TrainConfig:
    return config(**{"storage_path": place, "run_id": run_id, "spec_stem": STEM, "steps": 60} | changes)


def run_of(place: Folder, run_id: str) -> RunDirectory:
    run = RunDirectory.of(config(storage_path=place, run_id=run_id))
    run.create()
    return run


def with_checkpoints(place: Folder, run_id: str, *steps: int, marked: bool = True) -> list[Folder]:
    folders = [step_folder(run_of(place, run_id).checkpoints, step) for step in steps]
    for folder, step in zip(folders, steps, strict=True):
        folder.make()
        write_progress(folder, Progress(step=step, losses=[], eval_before=None))
        if marked:
            write_marker(folder, step, world_size=4)
    return folders


def found(settings: TrainConfig) -> tuple[Folder | None, list[str]]:
    said: list[str] = []
    return goes_on_from(settings, said.append), said


def test_a_run_goes_on_from_the_furthest_checkpoint_of_those_of_its_spec_on_any_head(place: Folder) -> None:
    _, furthest = with_checkpoints(place, LOST, 20, 40)
    with_checkpoints(place, LATER, 20)
    with_checkpoints(place, f"{STEM}0-aaaaaa-1", 50)
    with_checkpoints(place, "ray-train-fsdp-llm-9876543210-aaaaaa-1", 50)
    before = place.sizes()
    assert found(submitted(place)) == (
        furthest,
        [f"goes on from {furthest} (step 40) of run {LOST}, which did not finish; jobRunId set anew begins at step 1"],
    )
    assert place.sizes() == before


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


@pytest.mark.parametrize("changes", [{"spec_stem": None}, {"resume_from": "/shared/x"}, {"checkpoint_every": 0}])
def test_a_run_that_was_not_asked_to_looks_for_none(tmp_path: Path, changes: dict[str, Any]) -> None:
    with_checkpoints(LocalFolder(tmp_path), LOST, 20)
    given = {name: value for name, value in {"spec_stem": STEM, **changes}.items() if value is not None}
    assert found(config(storage_path=tmp_path, run_id=NOW, **given)) == (None, [])


def test_a_run_with_a_checkpoint_of_its_own_looks_for_none(place: Folder) -> None:
    with_checkpoints(place, LOST, 40)
    with_checkpoints(place, NOW, 20)
    assert found(submitted(place)) == (None, [])


def test_storage_that_does_not_say_what_it_holds_is_an_error_and_no_fresh_start(
    place: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_checkpoints(place, LOST, 40)

    def out(*_: object) -> None:
        raise TimeoutError("out of reach")

    monkeypatch.setattr(type(place), "names", out)
    with pytest.raises(TrainingError, match=f"--storage_path: {place} cannot be read: out of reach") as told:
        found(submitted(place))
    assert isinstance(told.value.__cause__, OSError)


def test_the_driver_says_where_a_run_goes_on_and_puts_it_on_record_beside_resume_from(tmp_path: Path) -> None:
    (newest,) = with_checkpoints(LocalFolder(tmp_path), LOST, 40)
    words = {"storage_path": tmp_path, "run_id": NOW, "spec_stem": STEM}
    _, finished = run_driver(arguments(**words))
    assert len(finished.said(f"goes on from {newest} (step 40) of run {LOST}")) == 1
    told = finished.record["arguments"]
    assert (told["resume_from"], told["goes_on_from"]) == (None, str(newest))
    assert "spec_stem" not in told, "between two runs it would be a difference that is none"


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
    }
