import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.training.faulty_folder import Fault, FaultyFolder
from training import checkpoint_files
from training.checkpoint_files import (
    MARKER,
    Progress,
    discard,
    newest_complete,
    prune,
    read_progress,
    require_complete,
    step_folder,
    why_incomplete,
    write_marker,
    write_progress,
)
from training.errors import TrainingError
from training.storage import Folder, LocalFolder


def checkpoint(place: Folder, step: int, *, marked: bool = True) -> Folder:
    folder = step_folder(place, step)
    folder.make()
    folder.write("__0_0.distcp", "shard" * step)
    folder.write(".metadata", "plan")
    write_progress(folder, Progress(step=step, losses=[(1, 5.25)], eval_before=None))
    if marked:
        write_marker(folder, step, world_size=4)
    return folder


def test_the_newest_whole_checkpoint_is_taken(place: Folder) -> None:
    checkpoint(place, 10)
    newest = checkpoint(place, 20)
    assert newest_complete(place) == (newest, [])


def test_a_run_without_checkpoints_starts_at_its_beginning(place: Folder) -> None:
    assert newest_complete(place / "checkpoints") == (None, [])


def test_an_unmarked_checkpoint_is_passed_over_with_a_line_that_says_so(place: Folder) -> None:
    older = checkpoint(place, 10)
    checkpoint(place, 20, marked=False)
    found, lines = newest_complete(place)
    assert found == older
    assert lines == [f"checkpoint step-000020 is incomplete and ignored: it has no {MARKER}"]


def test_a_marked_checkpoint_that_lost_or_shortened_a_file_does_not_count(place: Folder) -> None:
    lost, shortened = checkpoint(place, 10), checkpoint(place, 20)
    lost.delete(".metadata")
    shortened.write("__0_0.distcp", "sh")
    assert why_incomplete(lost) == ".metadata is missing"
    assert why_incomplete(shortened) == "__0_0.distcp has 2 bytes instead of 100"


def test_a_half_written_marker_does_not_count(place: Folder) -> None:
    folder = checkpoint(place, 10)
    text = folder.read(MARKER)
    folder.write(MARKER, text[: len(text) // 2])
    assert why_incomplete(folder) == f"its {MARKER} is damaged"


def test_a_crash_while_the_marker_is_written_leaves_no_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint(LocalFolder(tmp_path), 10, marked=False)

    def crash(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(OSError, match="No space left"):
        write_marker(folder, 10, world_size=4)
    assert why_incomplete(folder) == f"it has no {MARKER}"


def test_the_marker_names_every_file_and_its_size(place: Folder) -> None:
    marker = json.loads(checkpoint(place, 3).read(MARKER))
    assert marker["step"] == 3 and marker["world_size"] == 4
    assert marker["files"].keys() == {"__0_0.distcp", ".metadata", "progress.json"}
    assert marker["files"]["__0_0.distcp"] == 15


@pytest.mark.parametrize("state", ["absent", "unmarked"])
def test_a_checkpoint_named_by_the_user_must_be_whole(place: Folder, state: str) -> None:
    if state == "unmarked":
        checkpoint(place, 10, marked=False)
    with pytest.raises(TrainingError, match=f"--resume_from {place}/step-000010: "):
        require_complete(f"{place}/step-000010")


def test_storage_that_is_out_makes_no_checkpoint_incomplete(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    named = checkpoint(place, 10)

    def out(*_: object) -> None:
        raise TimeoutError("out of reach")

    monkeypatch.setattr(type(named), "read_json", out)
    with pytest.raises(TrainingError, match=f"--resume_from {named}: cannot be read: out of reach") as told:
        require_complete(str(named))
    assert isinstance(told.value.__cause__, OSError)


def test_an_outage_while_a_marker_is_read_passes_over_no_checkpoint(
    place: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (10, 20):
        checkpoint(place, step)
    read = type(place).read_json

    def out(folder: Folder, name: str) -> Any:
        if folder.name == "step-000020":
            raise OSError(errno.EIO, "Input/output error")
        return read(folder, name)

    monkeypatch.setattr(type(place), "read_json", out)
    for looks in (lambda: newest_complete(place), lambda: prune(place, keep=1)):
        with pytest.raises(OSError, match="Input/output error"):
            looks()
    assert len(place.names()) == 2


def test_a_file_that_is_called_as_a_checkpoint_is_none(tmp_path: Path) -> None:
    (tmp_path / "step-000020").touch()
    newest = checkpoint(LocalFolder(tmp_path), 10)
    told = f"checkpoint step-000020 is incomplete and ignored: it has no {MARKER}"
    assert newest_complete(LocalFolder(tmp_path)) == (newest, [told])


def test_a_whole_checkpoint_named_by_the_user_is_found_also_with_a_slash_at_its_end(place: Folder) -> None:
    assert require_complete(f"{checkpoint(place, 10)}/") == step_folder(place, 10)


def test_losses_come_back_to_the_last_bit(place: Folder) -> None:
    losses = [(1, 0.1 + 0.2), (2, 1 / 3)]
    write_progress(place, Progress(step=2, losses=losses, eval_before={"loss": 5.5, "perplexity": 244.7, "tokens": 9}))
    assert read_progress(place).losses == losses


def test_where_the_data_stands_comes_back_as_it_was(place: Folder) -> None:
    progress = Progress(step=2, losses=[], eval_before=None, data={"epoch": 1, "row": 2**40, "parts": ["a", "b"]})
    write_progress(place, progress)
    assert read_progress(place) == progress


def test_the_newest_so_many_stay_and_what_is_older_goes_whole_or_not(place: Folder) -> None:
    for step in (10, 20, 30, 40, 50):
        checkpoint(place, step, marked=step not in (20, 50))
    assert prune(place, keep=2) == ["step-000020", "step-000010"]
    assert sorted(place.names()) == ["step-000030", "step-000040", "step-000050"], "50 may still be in the making"


def test_nothing_is_deleted_before_there_is_a_whole_one(place: Folder) -> None:
    checkpoint(place, 10, marked=False)
    checkpoint(place, 20, marked=False)
    assert prune(place, keep=1) == []


def test_the_checkpoint_a_run_was_resumed_from_stays_by_whatever_path_it_was_named(tmp_path: Path) -> None:
    place = LocalFolder(tmp_path / "real")
    for step in (10, 20, 30):
        checkpoint(place, step)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert prune(place, 1, protected=LocalFolder(tmp_path / "link" / "step-000010")) == ["step-000020"]
    assert sorted(place.names()) == ["step-000010", "step-000030"]


def test_a_crash_anywhere_in_a_deletion_leaves_no_checkpoint_that_looks_whole(place: Folder) -> None:
    files = len(checkpoint(place, 10).sizes())
    for at in range(2, files + 2):
        doomed = checkpoint(place, 10)
        with pytest.raises(OSError, match="fault"):
            discard(FaultyFolder(doomed, Fault(at=at)))
        assert why_incomplete(doomed) == f"it has no {MARKER}"


def test_the_marker_waits_for_files_that_another_node_has_written(place: Folder) -> None:
    folder = checkpoint(place, 10, marked=False)
    late = threading.Timer(0.3, lambda: folder.write("__1_0.distcp", "12345"))
    late.start()
    write_marker(folder, 10, 2, expected={"__0_0.distcp": 50, "__1_0.distcp": 5})
    assert folder.read_json(MARKER)["files"]["__1_0.distcp"] == 5


@pytest.mark.parametrize("expected", [{"__1_0.distcp": 5}, {"__0_0.distcp": 51}], ids=["absent", "too short"])
def test_without_a_shard_there_is_no_marker(
    place: Folder, monkeypatch: pytest.MonkeyPatch, expected: dict[str, int]
) -> None:
    monkeypatch.setattr(checkpoint_files, "SEEN_WITHIN_S", 0.0)
    folder = checkpoint(place, 10, marked=False)
    with pytest.raises(
        OSError,
        match=rf"node .* of rank 0 does not see whole what other ranks wrote there: {next(iter(expected))}: name",
    ):
        write_marker(folder, 10, 2, expected)
    assert not folder.has(MARKER)
