"""Checkpoints that are made while training goes on, and what faults leave of them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.multiprocessing import ProcessExitedException

from tests.training import checkpoint_ranks, fault_ranks, ranks
from tests.training.arguments import config
from tests.training.s3_server import BUCKET, S3Server
from training.checkpoint_files import newest_complete
from training.checkpointer import Failed
from training.errors import TrainingError
from training.steps import failed_line
from training.storage import LocalFolder


@pytest.fixture(scope="module")
def overlapped(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("overlapped")
    ranks.run_ranks(2, checkpoint_ranks.trained_while_written, folder)
    return ranks.told(folder)


def test_training_goes_on_while_storage_takes_its_time(overlapped: Any) -> None:
    assert overlapped["whole_meanwhile"] is False
    assert [step for step, _ in overlapped["straight"]] == list(range(1, ranks.STEPS + 1))


def test_the_checkpoint_holds_the_step_it_was_asked_at_and_nothing_that_came_after(overlapped: Any) -> None:
    assert overlapped["resumed"] == overlapped["straight"], "to the last bit"


def test_only_the_time_training_stood_still_counts_as_exposed(overlapped: Any) -> None:
    figures = overlapped["figures"]
    assert figures["mode"] == "async" and figures["count"] == 1
    waited, trained = checkpoint_ranks.Clock.WAITED_S, float(ranks.STEPS - ranks.SAVED_AT)
    assert figures["exposed_s"] == waited
    assert figures["written_s"] == overlapped["written_s"] == trained + waited


def test_the_next_checkpoint_waits_for_the_one_in_flight_and_the_end_for_the_last(tmp_path: Path) -> None:
    ranks.run_ranks(2, checkpoint_ranks.one_at_a_time, tmp_path)
    told = ranks.told(tmp_path)
    assert told["told"] == 1 and told["count"] == 2
    assert told["exposed"] == checkpoint_ranks.Clock.WAITED_S
    assert told["left"] == ["step-000002"], "one was to be kept, the newest"


def after_a_refusal(folder: Path, stopped_rank: int, mode: str, then: str) -> list[dict[str, Any]]:
    """What each rank tells; the same of how it went on, whichever rank's storage refused."""
    ranks.run_ranks(2, fault_ranks.refused_in_the_background, folder, stopped_rank, mode, then)
    told = [json.loads((folder / f"told-{rank}.json").read_text()) for rank in range(2)]
    assert told[0] == told[1]
    return told


@pytest.mark.parametrize(("stopped_rank", "mode"), [(0, "async"), (1, "async"), (1, "sync")])
def test_a_checkpoint_that_fails_is_told_at_once_and_the_next_one_is_written(
    tmp_path: Path, stopped_rank: int, mode: str
) -> None:
    for told in after_a_refusal(tmp_path, stopped_rank, mode, "well"):
        assert told["first"] == "None" and told["heard"]
        ((step, error, ends),) = told["failures"]
        assert (step, ends) == (1, False)
        assert error.startswith(f"--storage_path: checkpoint {tmp_path}/checkpoints/step-000001 cannot be written: ")
        assert "raised" not in told and (told["next"], told["last"], told["count"]) == (2, "None", 1)
        assert told["newest"] == [2, 2.0, 0.25], "the state that the second save was called with"


@pytest.mark.parametrize(("stopped_rank", "mode"), [(0, "sync"), (0, "async"), (1, "async")])
def test_two_in_a_row_that_fail_are_an_error_of_the_second_save_on_every_rank(
    tmp_path: Path, stopped_rank: int, mode: str
) -> None:
    for told in after_a_refusal(tmp_path, stopped_rank, mode, "save"):
        assert [(step, ends) for step, _, ends in told["failures"]] == [(1, False), (2, True)]
        assert told["raised"].startswith(
            f"TrainingError: --storage_path: checkpoint {tmp_path}/checkpoints/step-000002 "
        )
        assert "fault at operation 1" in told["raised"] and told["outage"]
        assert "next" not in told and "newest" not in told


@pytest.mark.parametrize(("stopped_rank", "mode"), [(1, "sync"), (1, "async")])
def test_the_last_checkpoint_that_fails_is_an_error_of_the_end_on_every_rank(
    tmp_path: Path, stopped_rank: int, mode: str
) -> None:
    for told in after_a_refusal(tmp_path, stopped_rank, mode, "end"):
        assert told["first"] == "None" and len(told["failures"]) == 1
        assert told["raised"].startswith(
            f"TrainingError: --storage_path: checkpoint {tmp_path}/checkpoints/step-000001 "
        )
        assert "fault at operation 1" in told["raised"] and told["outage"]


def test_what_follows_from_a_checkpoint_that_failed_is_said_with_its_step_and_place() -> None:
    settings = config(steps=25, checkpoint_every=10)

    def said(step: int, *, ends: bool = False) -> str:
        return failed_line(Failed(step, TrainingError(f"checkpoint /runs/step-{step:06d}: full"), ends), settings)

    goes_on = "training goes on; step {} makes the next, and if that fails too, this attempt ends"
    assert said(10) == f"at the checkpoint of step 10: checkpoint /runs/step-000010: full; {goes_on.format(20)}"
    assert said(20).endswith(goes_on.format(25)), "the last step makes one too"
    assert said(25).endswith("full; this attempt ends") and said(20, ends=True).endswith("full; this attempt ends")


def assert_every_stop_left_a_checkpoint(told: list[list[Any]], least: int) -> None:
    """`told`: which rank was stopped, before which operation, and whether the new checkpoint counted by then."""
    assert {rank for rank, _, _ in told} == {0, 1}
    assert len(told) >= least
    of_rank_0 = [(operation, whole) for rank, operation, whole in told if rank == 0]
    after_marker = [operation for operation, whole in of_rank_0 if whole]
    assert of_rank_0.index(("write COMPLETE.json", False)) == len(of_rank_0) - len(after_marker) - 1
    assert after_marker[0].startswith("delete step-") and after_marker[0].endswith("/COMPLETE.json")
    assert not any(whole for rank, _, whole in told if rank == 1), "without rank 1's shards there is no checkpoint"


def test_a_crash_between_any_two_operations_leaves_a_checkpoint_that_loads(tmp_path: Path) -> None:
    ranks.run_ranks(2, fault_ranks.stopped_everywhere, tmp_path, f"{tmp_path}/checkpoints", False)
    assert_every_stop_left_a_checkpoint(ranks.told(tmp_path), least=20)


def test_a_crash_between_any_two_operations_in_a_bucket_leaves_one_too(s3: S3Server, tmp_path: Path) -> None:
    ranks.run_ranks(2, fault_ranks.stopped_everywhere, tmp_path, f"s3://{BUCKET}/stopped", False)
    assert_every_stop_left_a_checkpoint(ranks.told(tmp_path), least=20)


@pytest.mark.full
def test_a_crash_within_any_write_to_a_file_leaves_a_checkpoint_that_loads(tmp_path: Path) -> None:
    ranks.run_ranks(2, fault_ranks.stopped_everywhere, tmp_path, f"{tmp_path}/checkpoints", True)
    assert_every_stop_left_a_checkpoint(ranks.told(tmp_path), least=200)


@pytest.mark.parametrize(
    ("stopped_rank", "at"),
    [(1, 3), pytest.param(0, 4, marks=pytest.mark.full), pytest.param(0, 9, marks=pytest.mark.full)],
)
def test_a_rank_killed_while_it_writes_costs_that_checkpoint_only(tmp_path: Path, stopped_rank: int, at: int) -> None:
    with pytest.raises(ProcessExitedException, match="SIGKILL"):
        ranks.run_ranks(2, fault_ranks.killed_while_writing, tmp_path, stopped_rank, at)
    assert (tmp_path / "checkpoints" / "step-000002").is_dir(), "the kill came before the write"
    assert newest_complete(LocalFolder(tmp_path / "checkpoints"))[0] is not None
    ranks.run_ranks(2, fault_ranks.take_up, tmp_path)
    told = ranks.told(tmp_path)
    assert told["step"] == 1 and told["held"] == [1.0, 0.125]
    assert told["passed_over"] == ["checkpoint step-000002 is incomplete and ignored: it has no COMPLETE.json"]


def drawn(folder: Path, world_size: int) -> list[list[float]]:
    return [json.loads((folder / f"drawn-{rank}.json").read_text()) for rank in range(world_size)]


@pytest.fixture(scope="module")
def random_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("random")
    ranks.run_ranks(2, checkpoint_ranks.saved_with_randomness, folder, 11)
    return folder


def test_every_rank_s_random_streams_go_on_where_they_stood(random_folder: Path, tmp_path: Path) -> None:
    ranks.run_ranks(2, checkpoint_ranks.drawn_after_resume, tmp_path, random_folder)
    assert drawn(tmp_path, 2) == drawn(random_folder, 2)


def test_another_number_of_ranks_gets_streams_of_its_own_and_always_the_same(
    random_folder: Path, tmp_path: Path
) -> None:
    for folder in (tmp_path / "first", tmp_path / "second"):
        ranks.run_ranks(3, checkpoint_ranks.drawn_after_resume, folder, random_folder)
    assert drawn(tmp_path / "first", 3) == drawn(tmp_path / "second", 3)
    numbers = [number for told in drawn(tmp_path / "first", 3) + drawn(random_folder, 2) for number in told]
    assert len(set(numbers)) == len(numbers), "two ranks draw the same"


def test_four_ranks_two_ranks_and_four_placed_otherwise_hold_the_same_to_the_last_bit(tmp_path: Path) -> None:
    """Four over one mesh, then two, then four of which every other one holds the same shards."""
    come_from: str | None = None
    told = []
    for number, (world_size, placement) in enumerate([(4, "in order"), (2, "in order"), (4, "interleaved")]):
        folder = tmp_path / str(number)
        ranks.run_ranks(world_size, checkpoint_ranks.whole_state, folder, come_from, placement, True)
        come_from = f"{folder}/step-000002"
        told.append(torch.load(folder / "whole.pt"))
    first, *others = told
    assert len(first) > 60
    for other in others:
        assert other.keys() == first.keys()
        assert [name for name in first if not torch.equal(first[name], other[name])] == []


@pytest.mark.parametrize("mode", ["fsdp", "hsdp"])
def test_the_run_s_own_step_goes_on_as_if_nothing_had_happened(tmp_path: Path, mode: str) -> None:
    ranks.run_ranks(4, checkpoint_ranks.resumed_with_the_run_s_own_step, tmp_path, mode)
    told = ranks.told(tmp_path)
    assert told["resumed"] == told["straight"][3:], "to the last bit"
    assert len({loss for loss, _ in told["straight"]}) == 6


def test_parameters_that_no_loss_uses_cost_no_checkpoint_and_do_not_count_as_trained(tmp_path: Path) -> None:
    ranks.run_ranks(2, checkpoint_ranks.partly_trained_and_taken_up, tmp_path)
    told = ranks.told(tmp_path)
    assert told["equal"]
    # The unit in use alone: 12 of its 24 weights are gathered twice and reduced once, in 4 bytes.
    assert told["moves"] == {"steps": 1, "sent": 144, "received": 144} == told["moves_again"]


def test_a_run_that_resumes_decays_as_it_was_asked_and_says_that_the_checkpoint_did_not(tmp_path: Path) -> None:
    ranks.run_ranks(2, checkpoint_ranks.taken_up_with_other_decays, tmp_path)
    more, less = ranks.told(tmp_path)
    for told, asked in ((more, "0.5"), (less, "0.0")):
        assert told["groups"] == told["fresh"] and told["equal"], (
            "the numbers are the run's, the moments the checkpoint's"
        )
        assert told["said"] == [
            f"weight_decay is {asked} from here on, as asked: the checkpoint was trained with 0.1",
            "what decays is as asked from here on: in the checkpoint other parameters did",
        ]


def test_a_checkpoint_of_another_model_is_told_by_how_the_run_came_to_it(tmp_path: Path) -> None:
    ranks.run_ranks(2, checkpoint_ranks.taken_up_by_another_model, tmp_path)
    own, named = ranks.told(tmp_path)
    assert own.startswith(f"the run's own checkpoint {tmp_path}/checkpoint does not fit this model or cannot be read: ")
    assert named.startswith(f"--resume_from: checkpoint {tmp_path}/checkpoint does not fit this model")
