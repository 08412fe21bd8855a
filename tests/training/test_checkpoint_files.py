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
    step_directory,
    why_incomplete,
    write_marker,
    write_progress,
)
from training.errors import TrainingError


def checkpoint(folder: Path, step: int, *, marked: bool = True) -> Path:
    directory = step_directory(folder, step)
    directory.mkdir(parents=True)
    (directory / "__0_0.distcp").write_bytes(b"shard" * step)
    (directory / ".metadata").write_bytes(b"plan")
    write_progress(directory, Progress(step=step, losses=[(1, 5.25)], eval_before=None))
    if marked:
        write_marker(directory, step, world_size=4)
    return directory


def test_the_newest_whole_checkpoint_is_taken(tmp_path: Path) -> None:
    checkpoint(tmp_path, 10)
    newest = checkpoint(tmp_path, 20)
    assert newest_complete(tmp_path) == (newest, [])


def test_a_run_without_checkpoints_starts_at_its_beginning(tmp_path: Path) -> None:
    assert newest_complete(tmp_path / "checkpoints") == (None, [])


def test_an_unmarked_checkpoint_is_passed_over_with_a_line_that_says_so(tmp_path: Path) -> None:
    older = checkpoint(tmp_path, 10)
    checkpoint(tmp_path, 20, marked=False)
    found, lines = newest_complete(tmp_path)
    assert found == older
    assert lines == [f"checkpoint step-000020 is incomplete and ignored: it has no {MARKER}"]


def test_a_marked_checkpoint_that_lost_or_shortened_a_file_does_not_count(tmp_path: Path) -> None:
    lost, shortened = checkpoint(tmp_path, 10), checkpoint(tmp_path, 20)
    (lost / ".metadata").unlink()
    (shortened / "__0_0.distcp").write_bytes(b"sh")
    assert why_incomplete(lost) == ".metadata is missing"
    assert why_incomplete(shortened) == "__0_0.distcp has 2 bytes instead of 100"


def test_a_half_written_marker_does_not_count(tmp_path: Path) -> None:
    directory = checkpoint(tmp_path, 10)
    text = (directory / MARKER).read_text()
    (directory / MARKER).write_text(text[: len(text) // 2])
    assert why_incomplete(directory) == f"its {MARKER} is damaged"


def test_a_crash_while_the_marker_is_written_leaves_no_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = checkpoint(tmp_path, 10, marked=False)

    def crash(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(OSError, match="No space left"):
        write_marker(directory, 10, world_size=4)
    assert why_incomplete(directory) == f"it has no {MARKER}"


def test_the_marker_names_every_file_and_its_size(tmp_path: Path) -> None:
    marker = json.loads((checkpoint(tmp_path, 3) / MARKER).read_text())
    assert marker["step"] == 3 and marker["world_size"] == 4
    assert marker["files"].keys() == {"__0_0.distcp", ".metadata", "progress.json"}
    assert marker["files"]["__0_0.distcp"] == 15


@pytest.mark.parametrize("state", ["absent", "unmarked"])
def test_a_checkpoint_named_by_the_user_must_be_whole(tmp_path: Path, state: str) -> None:
    directory = tmp_path / "step-000010"
    if state == "unmarked":
        checkpoint(tmp_path, 10, marked=False)
    with pytest.raises(TrainingError, match=f"--resume_from {directory}: "):
        require_complete(str(directory))


def test_losses_come_back_to_the_last_bit(tmp_path: Path) -> None:
    losses = [(1, 0.1 + 0.2), (2, 1 / 3)]
    write_progress(
        tmp_path, Progress(step=2, losses=losses, eval_before={"loss": 5.5, "perplexity": 244.7, "tokens": 9})
    )
    assert read_progress(tmp_path).losses == losses
