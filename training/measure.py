"""Where a run's time went besides its steps, and the file rank 0 tells it in."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from training.checkpoint_files import PREFIX
from training.storage import Folder, storage_errors

RESULT = "result.json"
WARM_UP_STEPS = 3
"""That say nothing of the others: they compile, allocate, connect."""


@dataclass
class Stopwatch:
    """Seconds of wall-clock time of one attempt."""

    evaluations_s: float = 0.0
    export_s: float = 0.0

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.evaluations_s += time.perf_counter() - started

    @contextmanager
    def export(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.export_s += time.perf_counter() - started

    def timings(self) -> dict[str, float]:
        exported = {"export_s": self.export_s} if self.export_s else {}
        return {"eval_s": self.evaluations_s, **exported}


def write_result(
    folder: Folder,
    *,
    losses: list[tuple[int, float]],
    tokens_per_step: int,
    evaluated: Mapping[str, Any],
    saved: Folder | None,
    timings: Mapping[str, float],
    further: Mapping[str, Any],
) -> None:
    """The figures of the job record that only a rank knows; those of `further` as they are."""
    figures: dict[str, Any] = {
        "losses": losses,
        "tokens_per_step": tokens_per_step,
        "eval": dict(evaluated),
        "checkpoint": None if saved is None else {"path": str(saved), "step": int(saved.name.removeprefix(PREFIX))},
        "timings": dict(timings),
    }
    with storage_errors(folder):
        folder.write_json(RESULT, figures | dict(further))
