"""Where a run's time went, as rank 0 sees it."""

import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from training.checkpoint_files import PREFIX
from training.storage import Folder, storage_errors

RESULT = "result.json"
WARM_UP_STEPS = 3


@dataclass
class Stopwatch:
    """Seconds of wall-clock time of one attempt. A step ends with the loss on the CPU, so a GPU's work is within it."""

    steps: list[float] = field(default_factory=list)
    evaluations_s: float = 0.0
    checkpoints_s: float = 0.0
    last_checkpoint_s: float = 0.0

    @contextmanager
    def step(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.steps.append(time.perf_counter() - started)

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.evaluations_s += time.perf_counter() - started

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.last_checkpoint_s = time.perf_counter() - started
        self.checkpoints_s += self.last_checkpoint_s


def step_statistics(steps: list[float]) -> dict[str, float] | None:
    """Median and 90th percentile without the first steps, which warm up; None where no step ran."""
    if not steps:
        return None
    steady = sorted(steps[WARM_UP_STEPS:] or steps)
    return {
        "median": statistics.median(steady),
        "p90": steady[min(len(steady) - 1, int(0.9 * len(steady)))],
        "first": steps[0],
    }


def write_result(
    folder: Folder,
    *,
    stopwatch: Stopwatch,
    losses: list[tuple[int, float]],
    tokens_per_step: int,
    eval_before: dict[str, float],
    eval_after: dict[str, float],
    saved: Folder | None,
    further: Mapping[str, Any] | None = None,
) -> None:
    """The figures of the job record that only a rank knows; those of `further` add to them, or take their place."""
    step_seconds = step_statistics(stopwatch.steps)
    figures: dict[str, Any] = {
        "losses": losses,
        "tokens_per_step": tokens_per_step,
        "tokens_per_second": tokens_per_step / step_seconds["median"] if step_seconds else None,
        "step_seconds": step_seconds,
        "eval": {"before": eval_before, "after": eval_after},
        "checkpoint": None if saved is None else {"path": str(saved), "step": int(saved.name.removeprefix(PREFIX))},
        "timings": {
            "train_s": sum(stopwatch.steps),
            "eval_s": stopwatch.evaluations_s,
            "checkpoint_s": stopwatch.checkpoints_s,
        },
    }
    with storage_errors(folder):
        folder.write_json(RESULT, figures | dict(further or {}))
