import json
import os
from pathlib import Path

import pytest

from training.checkpoint_files import (
    MARKER,
    Progress,
    newest_complete,
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


def test_a_whole_checkpoint_named_by_the_user_is_found_also_with_a_slash_at_its_end(place: Folder) -> None:
    assert require_complete(f"{checkpoint(place, 10)}/") == step_folder(place, 10)


def test_losses_come_back_to_the_last_bit(place: Folder) -> None:
    losses = [(1, 0.1 + 0.2), (2, 1 / 3)]
    write_progress(place, Progress(step=2, losses=losses, eval_before={"loss": 5.5, "perplexity": 244.7, "tokens": 9}))
    assert read_progress(place).losses == losses
