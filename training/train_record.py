"""What the training job's record tells beyond that of every job."""

from collections.abc import Sequence
from typing import Any, ClassVar

from training import checkpoint_files
from training.record import JobReport
from training.run_directory import RunDirectory

SCHEMA = "ray-train-efa/job-record/1"


class TrainReport(JobReport):
    """Losses, evaluation, checkpoints, data, model, memory and throughput."""

    schema: ClassVar[str] = SCHEMA

    def own_fields(self) -> dict[str, Any]:
        return {
            "losses": [],
            "tokens_per_step": None,
            "tokens_per_second": None,
            "step_seconds": None,
            "split_seconds": {},
            "mfu": None,
            "eval": {"before": None, "after": None},
            "checkpoint": None,
            "checkpoints": None,
            "data": None,
            "model": None,
            "profile": {},
            "peak_memory_bytes": {},
        }

    def add_own(self, record: dict[str, Any], run: RunDirectory) -> None:
        for attempt in record["attempts"]:
            ranks = attempt["ranks"]
            attempt["resumed_from_step"] = ranks[0]["resumed_from_step"] if ranks else None
        if record["attempts"]:
            counting = counting_attempt(record["attempts"])
            steps = run.steps(counting["attempt"])
            record |= steps | {"timings": record["timings"] | steps.get("timings", {})}
            record["peak_memory_bytes"] = {str(rank["rank"]): rank["peak_memory_bytes"] for rank in counting["ranks"]}
        result = run.result()
        if result is not None:
            record |= result | {"timings": record["timings"] | result["timings"]}
            return
        newest, _ = checkpoint_files.newest_complete(run.checkpoints)
        if newest is not None:
            progress = checkpoint_files.read_progress(newest)
            record["losses"] = progress.losses
            record["eval"]["before"] = progress.eval_before
            record["checkpoint"] = {"path": str(newest), "step": progress.step}


def counting_attempt(attempts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The newest that trained a step, or else the last: one that came after may have had to report alone."""
    trained = [one for one in attempts if any(rank.get("trained_steps") for rank in one["ranks"])]
    return (trained or attempts)[-1]
