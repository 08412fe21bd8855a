from pathlib import Path

import pytest

from tests.training.arguments import config
from tests.training.s3_server import BUCKET, S3Server
from training.errors import TrainingError
from training.measure import write_steps
from training.run_directory import RunDirectory
from training.storage import Folder, LocalFolder

FIGURES = {"losses": [[1, 5.25]]}
NAME = "ray-train-fsdp-llm"


@pytest.fixture
def run(place: Folder) -> RunDirectory:
    found = RunDirectory(place, "run-1", NAME)
    found.create()
    return found


def test_attempts_are_counted_from_what_is_stored(run: RunDirectory) -> None:
    assert run.attempts() == []
    assert run.begin_attempt(1.5) == 1
    again = RunDirectory(run.storage, run.run_id, run.name)
    assert again.begin_attempt(9.0) == 2, "another process counts the same"
    assert again.attempts() == [1, 2]
    assert [run.attempt_start(number)["worker_group_s"] for number in (1, 2)] == [1.5, None]


def test_what_the_ranks_wrote_is_collected_in_their_order(run: RunDirectory) -> None:
    number = run.begin_attempt(1.0)
    assert run.testimonies(number) == []
    for rank in (10, 2, 0):
        run.attempt(number).write_json(f"rank-{rank}.json", {"rank": rank})
    assert [told["rank"] for told in run.testimonies(number)] == [0, 2, 10]


def test_the_figures_of_an_attempt_are_gone_when_the_next_begins(run: RunDirectory) -> None:
    assert run.result() is None
    run.begin_attempt(1.0)
    run.folder.write_json("result.json", FIGURES)
    assert run.result() == FIGURES
    run.begin_attempt(1.0)
    assert run.result() is None


def test_the_figures_of_an_attempt_s_steps_outlive_the_next_attempt(run: RunDirectory) -> None:
    first = run.begin_attempt(1.0)
    assert run.steps(first) == {}
    write_steps(run.attempt(first), figures={"mfu": 0.5}, timings={"train_s": 2.0})
    second = run.begin_attempt(1.0)
    assert run.steps(first) == {"mfu": 0.5, "timings": {"train_s": 2.0}}
    assert run.steps(second) == {}
    assert run.testimonies(first) == []


def test_a_run_kills_a_rank_once(run: RunDirectory) -> None:
    assert [run.claim_kill(), run.claim_kill(), RunDirectory(run.storage, run.run_id, run.name).claim_kill()] == [
        True,
        False,
        False,
    ]


def test_creating_a_run_leaves_what_another_try_left(run: RunDirectory) -> None:
    run.begin_attempt(1.0)
    run.create()
    assert run.attempts() == [1]
    assert ".writable" not in run.folder.names()


def test_an_attempt_that_is_begun_is_seen_by_every_rank(run: RunDirectory) -> None:
    run.check_shared(run.begin_attempt(1.0))


def test_a_directory_that_does_not_exist_yet_is_made_with_its_parents(tmp_path: Path) -> None:
    run = RunDirectory.of(config(storage_path=tmp_path / "claim" / "team" / "runs"))
    run.create()
    assert (tmp_path / "claim" / "team" / "runs" / "run-1" / "ray-train-fsdp-llm").is_dir()


def test_a_node_that_does_not_share_the_directory_is_named(tmp_path: Path) -> None:
    """As if the driver and rank 0 had written it on a disk of their own."""
    run = RunDirectory(LocalFolder(tmp_path), "run-1", NAME)
    with pytest.raises(TrainingError, match=r"does not see what the driver wrote there: name storage that all nodes"):
        run.begin_attempt(1.0)
    with pytest.raises(TrainingError, match=r"does not see what rank 0 wrote there"):
        run.check_shared(1)


def test_in_a_bucket_a_run_lies_where_it_lies_in_a_directory(s3: S3Server) -> None:
    run = RunDirectory.of(config(storage_path=f"s3://{BUCKET}/team/llm/"))
    run.create()
    run.begin_attempt(1.0)
    assert "team/llm/run-1/ray-train-fsdp-llm/evidence/attempt-1/start.json" in s3.keys("team/llm/")
