"""What an outage after the last step costs, and which of a run's attempts its record tells of."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.training import attempt_ranks, ranks
from tests.training.attempt_ranks import MOVED, STEPS
from training.config import TrainConfig
from training.record import MARK
from training.run_directory import RunDirectory
from training.train_record import TrainReport
from workload.transport_evidence import collect

RANKS = 2


def reported(settings: TrainConfig, capsys: pytest.CaptureFixture[str], error: str | None = None) -> dict[str, Any]:
    """The record as the driver prints it."""
    TrainReport(started_at=0.0, config=settings, world_size=RANKS).finish(error)
    record: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1].removeprefix(MARK))
    return record


@pytest.mark.parametrize("outage", ["export", "report"])
def test_an_outage_after_the_last_step_costs_neither_the_proof_nor_the_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], outage: str
) -> None:
    settings = attempt_ranks.run_config(tmp_path)
    RunDirectory.of(settings).create()
    ranks.run_ranks(RANKS, attempt_ranks.attempt, tmp_path, 1, outage)
    assert json.loads((tmp_path / "told-0.json").read_text()) == "TrainingError: there is no storage"
    interrupted = reported(settings, capsys, "there is no storage")
    assert interrupted["tokens_per_second"] > 0, "of a run that failed as well"

    ranks.run_ranks(RANKS, attempt_ranks.attempt, tmp_path, 2, "")
    assert json.loads((tmp_path / "told-0.json").read_text()) == "done"
    record = reported(settings, capsys)
    assert [(one["attempt"], one["resumed_from_step"]) for one in record["attempts"]] == [(1, 0), (2, STEPS)]
    steps = [[rank["trained_steps"] for rank in one["ranks"]] for one in record["attempts"]]
    assert steps == [[STEPS] * RANKS, [0] * RANKS]
    for figure in ("tokens_per_second", "step_seconds", "split_seconds", "checkpoints", "peak_memory_bytes"):
        assert record[figure] == interrupted[figure]
    assert record["timings"]["train_s"] == interrupted["timings"]["train_s"] > 0
    assert record["eval"]["after"]["loss"] < record["eval"]["before"]["loss"] and record["timings"]["eval_s"] > 0
    assert [step for step, _ in record["losses"]] == list(range(1, STEPS + 1))

    log = tmp_path / "job.log"
    log.write_text("".join((tmp_path / f"log-{rank}").read_text() for rank in range(RANKS)))
    transport = collect(record, log)
    assert transport["attempt"] == 1
    for rank in transport["ranks"]:
        assert rank["delivered"] == {"count": 1, "sha256": rank["lines"]["sha256"]}, "the lines of that very attempt"
        assert rank["mustMove"]["steps"] == STEPS and rank["mustMove"]["sent"] > 0
        assert rank["efaDevices"] == [{"name": "rdmap0s31", "sent": MOVED, "received": MOVED}]
    (late,) = {
        line[line.index("[nccl") :] for line in log.read_text().splitlines() if "rank 0" in line and "after" in line
    }
    assert transport["ranks"][0]["lines"]["id"] not in late, "what NCCL says later is said, and is no evidence"


@pytest.mark.parametrize(
    ("trained", "counts"),
    [([4, 0], 1), ([2, 2], 2), ([2, None, 2, 0, None], 3), ([0], 1), ([None, None], 2), ([4, None], 1)],
)
def test_the_newest_attempt_that_trained_a_step_is_the_one_whose_figures_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], trained: list[int | None], counts: int
) -> None:
    """`trained`: each attempt's steps as its ranks told them, None of one that was lost before."""
    settings = attempt_ranks.run_config(tmp_path)
    run = RunDirectory.of(settings)
    run.create()
    for steps in trained:
        number = run.begin_attempt(1.0)
        told = {"rank": 0, "resumed_from_step": 0, "peak_memory_bytes": number}
        run.attempt(number).write_json("rank-0.json", told if steps is None else told | {"trained_steps": steps})
        if steps is not None:
            figures = {"tokens_per_second": 10.0 * number, "timings": {"train_s": float(number)}}
            run.attempt(number).write_json("steps.json", figures)
    record = reported(settings, capsys)
    told_by_any = trained[counts - 1] is not None
    assert record["tokens_per_second"] == (10.0 * counts if told_by_any else None)
    assert record["timings"].get("train_s") == (counts if told_by_any else None)
    assert record["peak_memory_bytes"] == {"0": counts}
