"""What a status says of jobs: which one runs, how far it has come, how the last one ended."""

import datetime
from collections.abc import Sequence
from typing import Any

import pytest

from efactl.status import job_part

NOW = datetime.datetime(2026, 11, 29, 20, 0, tzinfo=datetime.UTC)
SIZES = "[train] tiny-qwen2 on pydoc: 60 steps, 4 ranks x 4 sequences x 256 tokens"


def job(identifier: str = "ray-train-fsdp-llm-a-1", **changes: Any) -> dict[str, Any]:
    began = int(NOW.timestamp() * 1000) - 90_000
    return {"submission_id": identifier, "status": "RUNNING", "start_time": began, "entrypoint": "python", **changes}


def step(number: int, rate: int) -> str:
    """As rank 0 prints it through Ray."""
    return f"(RayTrainWorker pid=70, ip=10.0.1.9) [train] step {number}/60 loss 2.5 tokens/s {rate} grad norm 0.5"


def test_progress_is_the_last_step_with_the_speed_and_the_time_that_is_left() -> None:
    told = job_part.progress_of([SIZES, *(step(number, 8192) for number in range(1, 21))])
    assert (told.step, told.steps, told.loss, told.tokens_per_second) == (20, 60, 2.5, 8192)
    assert told.eta_s == pytest.approx(40 * 4096 / 8192), "40 steps of 4096 tokens"


def test_accumulated_batches_make_a_step_longer() -> None:
    plain = job_part.progress_of([SIZES, step(1, 4096)])
    twice = job_part.progress_of([SIZES, step(1, 4096)], accumulate=2)
    assert plain.eta_s is not None
    assert twice.eta_s == 2 * plain.eta_s


def test_a_slow_first_step_does_not_stretch_the_time_that_is_left() -> None:
    told = job_part.progress_of([SIZES, step(1, 10), *(step(number, 4096) for number in range(2, 31))])
    assert told.eta_s == pytest.approx(30)


def test_a_job_that_began_anew_is_where_it_is_now() -> None:
    lines = [
        SIZES,
        *(step(number, 1000) for number in range(1, 31)),
        "[train] attempt 1 is lost: a rank died",
        step(21, 4096),
    ]
    told = job_part.progress_of(lines)
    assert (told.step, told.tokens_per_second) == (21, 4096)


def test_what_the_job_says_after_a_step_is_shown_until_the_next() -> None:
    lines = [step(20, 1), "(RayTrainWorker pid=70) [train] checkpoint step 20 -> checkpoints/step-000020 (0.2 s)"]
    assert job_part.progress_of(lines).says == "checkpoint step 20 -> checkpoints/step-000020 (0.2 s)"
    assert job_part.progress_of([*lines, step(21, 1)]).says is None


@pytest.mark.parametrize("loss", ["nan", "inf", "x"])
def test_a_loss_that_is_no_number_leaves_the_rest(loss: str) -> None:
    told = job_part.progress_of([f"[train] step 3/4 loss {loss}"])
    assert (told.step, told.loss, told.eta_s) == (3, None, None)


def test_no_log_is_no_progress() -> None:
    assert job_part.progress_of([]) == job_part.Progress()


@pytest.mark.parametrize(
    ("entrypoint", "batches"),
    [("python -m training.train --accumulate 4 --lr 1", 4), ("python -m training.train", 1), ("it's broken", 1)],
)
def test_how_many_batches_a_step_takes_is_on_the_command_line(entrypoint: str, batches: int) -> None:
    assert job_part.accumulate_of(entrypoint) == batches


def part(table: Sequence[dict[str, Any]], progress: job_part.Progress | None = None) -> dict[str, Any]:
    return job_part.job_part(table, progress or job_part.Progress(), NOW, log="")


def test_the_running_job_of_this_product_is_told_before_one_of_other_means() -> None:
    told = part([job(), job("by-hand", start_time=int(NOW.timestamp() * 1000))])
    assert told["running"]["submissionId"] == "ray-train-fsdp-llm-a-1"
    assert told["running"]["seconds"] == 90
    assert told["alsoRunning"] == ["by-hand"]


def test_without_a_running_job_the_last_that_ended_is_told_without_the_log_in_its_message() -> None:
    message = "Job entrypoint command failed with exit code 3, last available logs (truncated):\nHF_TOKEN=secret"
    ended = job("ray-train-fsdp-llm-a-2", status="FAILED", message=message, end_time=int(NOW.timestamp() * 1000))
    told = part([job(status="SUCCEEDED", end_time=1000), ended])
    assert told["running"] is None
    assert told["lastEnded"] == {
        "submissionId": "ray-train-fsdp-llm-a-2",
        "status": "FAILED",
        "endedAt": "2026-11-29T20:00:00+00:00",
        "message": "Job entrypoint command failed with exit code 3",
    }


def test_a_pending_job_says_what_ray_says_of_it() -> None:
    told = part([job(status="PENDING", message="Job has not started yet.", start_time=0)])
    assert told["running"]["says"] == "Job has not started yet."
    assert told["running"]["seconds"] is None


def test_the_bandwidth_measurement_is_told_apart_from_training() -> None:
    assert part([job("ray-train-bandwidth-a-1")])["running"]["kind"] == "bandwidth"
