"""Which runs have had their judgement and are not collected again."""

import json
import os
from pathlib import Path

import pytest

from workload.errors import ReportedError
from workload.run_folder import begin, create, end_log, is_followed, is_settled, meant, regular, settle


@pytest.mark.parametrize(
    ("record", "settled"),
    [
        (None, False),
        ("", False),
        ('{"quality": {"pas', False),
        ('{"quality": {"passed": null}}', False),
        ('{"quality": {"passed": true}}', True),
        ('{"quality": {"passed": false}}', True),
    ],
)
def test_a_record_counts_once_a_gate_has_judged_it(tmp_path: Path, record: str | None, settled: bool) -> None:
    if record is not None:
        (tmp_path / "record.json").write_text(record)
    assert is_settled(tmp_path) is settled


def test_what_a_run_began_as_stays_when_it_is_followed_again(tmp_path: Path) -> None:
    begin(tmp_path / "run", stack="dev", started_at=1_790_000_000.0)
    begin(tmp_path / "run", stack="dev", started_at=1_790_000_060.0)
    told = json.loads((tmp_path / "run" / "begun.json").read_text())
    assert told == {"stack": "dev", "startedAt": "2026-09-21T14:13:20.000+00:00", "logFollowed": False}
    assert not is_settled(tmp_path / "run")


def test_a_log_is_whole_from_its_end_on_until_it_is_followed_anew(tmp_path: Path) -> None:
    begin(tmp_path, stack="dev", started_at=1_790_000_000.0)
    (tmp_path / "record.json").write_text("{}")
    assert not is_followed(tmp_path), "a record does not say that every line was read and written"
    end_log(tmp_path)
    assert is_followed(tmp_path)
    begin(tmp_path, stack="dev", started_at=1_790_000_060.0)
    assert not is_followed(tmp_path)


@pytest.mark.parametrize(("name", "followed"), [("record.json", True), ("error.txt", False)])
@pytest.mark.parametrize("begun", [None, '{"stack": "dev"}', "{", "[]"])
def test_of_a_run_that_does_not_say_whether_its_log_is_whole_the_record_does(
    tmp_path: Path, begun: str | None, name: str, followed: bool
) -> None:
    if begun is not None:
        (tmp_path / "begun.json").write_text(begun)
    (tmp_path / name).write_text("{}")
    assert is_followed(tmp_path) is followed


def test_a_run_goes_on_where_its_beginning_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "run" / "begun.json.new").mkdir(parents=True)
    begin(tmp_path / "run", stack="dev", started_at=1_790_000_000.0)
    assert not (tmp_path / "run" / "begun.json").exists()


def test_a_pipe_in_a_record_s_place_is_no_judgement_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "record.json")
    with pytest.raises(OSError, match="is no regular file"):
        regular(tmp_path / "record.json")
    assert not is_settled(tmp_path)


def test_a_run_with_an_error_is_settled(tmp_path: Path) -> None:
    settle(tmp_path, "job x ended as FAILED")
    assert is_settled(tmp_path)
    assert (tmp_path / "error.txt").read_text() == "job x ended as FAILED\n"


def test_a_place_for_runs_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(ReportedError, match="runs for the runs' logs and records cannot be made"):
        create(tmp_path / "runs")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("aa1", ["ray-train-fsdp-llm-aa1"]),
        ("aa", ["ray-train-fsdp-llm-aa1", "ray-train-fsdp-llm-aa12"]),
        ("ray-train-fsdp-llm-aa1", ["ray-train-fsdp-llm-aa1"]),
        ("ray-train-b", ["ray-train-bandwidth-c1"]),
        ("c", ["copied", "ray-train-bandwidth-c1"]),
        ("", []),
        ("x", []),
    ],
)
def test_a_run_is_meant_by_its_id_or_by_the_beginning_of_it(asked: str, found: list[str]) -> None:
    ids = ["ray-train-fsdp-llm-aa12", "ray-train-fsdp-llm-aa1", "ray-train-bandwidth-c1", "copied"]
    assert meant(asked, ids) == found
