"""The one machine-readable line a job ends with."""

import json
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from training import checkpoint_files
from training.config import TrainConfig
from training.errors import first_line
from training.run_directory import RunDirectory

MARK = "RAY_TRAIN_EFA_RECORD"
SCHEMA = "ray-train-efa/job-record/1"


@dataclass
class JobReport:
    """Prints the error, if any, and the record, once: the driver's main thread and its deadline race for it."""

    started_at: float
    config: TrainConfig | None = None
    world_size: int = 0
    # Ray's ids of the nodes that were dead when the driver joined the cluster.
    lost_before: frozenset[str] = frozenset()
    timings: dict[str, float] = field(default_factory=dict)
    _told: threading.Lock = field(default_factory=threading.Lock)

    def finish(self, error: str | None) -> bool:
        """False where the record has been printed already."""
        if not self._told.acquire(blocking=False):
            return False
        if error is not None:
            print(f"[error] {error}", flush=True)
        record = self._record(error)
        line = f"{MARK} {json.dumps(record, separators=(',', ':'), allow_nan=False)}"
        # One write, begun on a line of its own: Ray's thread prints the ranks' last lines into the same file meanwhile.
        sys.stdout.write(f"\n{line}\n")
        sys.stdout.flush()
        return True

    def _record(self, error: str | None) -> dict[str, Any]:
        record: dict[str, Any] = {
            "schema": SCHEMA,
            "run_id": self.config.run_id if self.config else "",
            "status": "succeeded" if error is None else "failed",
            "error": error,
            "arguments": self.config.as_json() if self.config else {},
            "world_size": self.world_size,
            "attempts": [],
            "losses": [],
            "tokens_per_step": None,
            "tokens_per_second": None,
            "step_seconds": None,
            "eval": {"before": None, "after": None},
            "checkpoint": None,
            "peak_memory_bytes": {},
            "timings": {},
        }
        if self.config is not None:
            try:
                _add_what_is_stored(record, RunDirectory.of(self.config))
            except (OSError, ValueError) as unreadable:
                print(f"[train] the record lacks what the run stored: {first_line(unreadable)}", flush=True)
        record["timings"] |= self.timings | {"total_s": time.time() - self.started_at}
        return record


def _add_what_is_stored(record: dict[str, Any], run: RunDirectory) -> None:
    """Evidence and figures the ranks left in the run's directory: for a failed run as far as it got."""
    record["attempts"] = [_attempt(run, number) for number in run.attempts()]
    if record["attempts"]:
        record["timings"]["worker_group_s"] = run.attempt_start(record["attempts"][0]["attempt"])["worker_group_s"]
        ranks = record["attempts"][-1]["ranks"]
        record["peak_memory_bytes"] = {str(rank["rank"]): rank["peak_memory_bytes"] for rank in ranks}
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


def _attempt(run: RunDirectory, number: int) -> dict[str, Any]:
    ranks = run.testimonies(number)
    return {
        "attempt": number,
        "resumed_from_step": ranks[0]["resumed_from_step"] if ranks else None,
        "started_at": run.attempt_start(number)["started_at"],
        "ranks": ranks,
    }
