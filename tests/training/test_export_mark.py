"""Which of several runs that are given one directory exports to it, and what the others hear."""

from pathlib import Path

import pytest

from tests.training import ranks
from tests.training.arguments import config
from training.errors import TrainingError
from training.export import take_over_from_ranks
from training.export_mark import MARK, check_shared, take_over


def test_a_directory_is_taken_over_from_the_same_run_only(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    with pytest.raises(TrainingError, match=r"--export_to .*/thesis: holds thesis\.txt already: name a new directory"):
        take_over(str(thesis.parent), "/shared run-1")
    assert thesis.read_text() == "years of work"
    mine = tmp_path / "mine"
    take_over(str(mine), "/shared run-1")
    (mine / "model.safetensors").write_text("of an attempt that failed")
    with pytest.raises(TrainingError, match=r"holds model\.safetensors already"):
        take_over(str(mine), "/shared run-2")
    take_over(str(mine), "/shared run-1")
    assert (mine / "model.safetensors").read_text() == "of an attempt that failed", (
        "it may be the only one there will be"
    )


def test_a_run_that_failed_before_it_exported_keeps_no_other_out(tmp_path: Path) -> None:
    take_over(str(tmp_path / "model"), "/shared run-1")
    take_over(str(tmp_path / "model"), "/shared run-2")
    check_shared(str(tmp_path / "model"), "/shared run-2")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / MARK).write_text("cut sh")
    take_over(str(tmp_path / "other"), "/shared run-2")


def test_what_one_run_of_a_spec_has_left_of_an_export_the_next_one_of_it_takes_over(tmp_path: Path) -> None:
    stem, model = "ray-train-fsdp-llm-0123456789", tmp_path / "model"
    ours, theirs = {"spec_stem": stem, "stack": "ours"}, {"spec_stem": stem, "stack": "theirs"}
    lost, following, alone, of_another_stack = (
        config(storage_path=tmp_path, run_id=f"{stem}-{end}", **given).owner
        for end, given in (("aaaaaa-1", ours), ("bbbbbb-1", ours), ("cccccc-1", {}), ("dddddd-1", theirs))
    )
    take_over(str(model), lost)
    (model / "model.safetensors").write_text("half of a model")
    take_over(str(model), following)
    for other in (alone, of_another_stack):
        with pytest.raises(TrainingError, match=r"holds model\.safetensors already"):
            take_over(str(model), other)


def test_a_place_that_cannot_be_written_is_told_before_anything_is_trained() -> None:
    with pytest.raises(TrainingError, match=r"--export_to /proc/nowhere/model: cannot be written: "):
        take_over("/proc/nowhere/model", "/shared run-1")


def test_a_node_without_the_export_s_storage_says_so_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.checkpoint_files.SEEN_WITHIN_S", 0.0)
    take_over(str(tmp_path / "model"), "/shared run-1")
    check_shared(str(tmp_path / "model"), "/shared run-1")
    for place, owner, instead, apart in (
        ("elsewhere", "/shared run-1", "", ""),
        ("model", "/shared run-2", ", but the mark of run /shared run-1", ", and a directory of its own"),
    ):
        unseen = (
            rf"^--export_to .*/{place}: node .* does not see what rank 0 wrote there{instead}: "
            rf"name storage that all nodes share{apart}$"
        )
        with pytest.raises(TrainingError, match=unseen) as told:
            check_shared(str(tmp_path / place), owner)
        assert isinstance(told.value.__cause__, OSError), "another attempt may see it"


def next_attempt(rank: int, world_size: int, folder: Path) -> None:
    told = "goes on"
    try:
        take_over_from_ranks(str(folder / "model"), "/shared run-1")
    except TrainingError as error:
        told = str(error)
    (folder / f"told-{rank}").write_text(told)


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("trains", "goes on"),
        ("exports", "--export_to {to}: is being exported to, taken by run /shared run-2: name a new directory"),
        (
            "has exported",
            "--export_to {to}: holds config.json already, taken by run /shared run-2: name a new directory",
        ),
    ],
)
def test_a_run_that_loses_a_node_goes_on_unless_another_has_begun_to_export_there(
    tmp_path: Path, state: str, told: str
) -> None:
    to = tmp_path / "model"
    take_over(str(to), "/shared run-1")
    assert take_over(str(to), "/shared run-2") == "/shared run-1", "for the second to say so before it trains"
    if state != "trains":
        take_over(str(to), "/shared run-2", exports=True)
    if state == "has exported":
        (to / "config.json").write_text("{}")
    ranks.run_ranks(2, next_attempt, tmp_path)
    assert [(tmp_path / f"told-{rank}").read_text() for rank in range(2)] == [told.format(to=to)] * 2


def test_a_mark_that_another_run_is_writing_is_no_export(tmp_path: Path) -> None:
    take_over(str(tmp_path), "/shared run-1")
    (tmp_path / f".{MARK}.123").touch()
    assert take_over(str(tmp_path), "/shared run-2") == "/shared run-1"
    assert take_over(str(tmp_path), "/shared run-2") is None
