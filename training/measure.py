"""Where a run's time went besides its steps, and the files rank 0 tells its figures in."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from training.checkpoint_files import PREFIX
from training.storage import Folder, storage_errors

RESULT, STEPS = "result.json", "steps.json"
WARM_UP_STEPS = 3
"""That say nothing of the others: they compile, allocate, connect."""


class Stopwatch:
    """Seconds of wall-clock time of one attempt, by what they went into."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - started


def write_steps(attempt: Folder, *, figures: Mapping[str, Any], timings: Mapping[str, float]) -> None:
    """The figures of an attempt's steps, as soon as these are done: an outage after them must not cost them."""
    with storage_errors(attempt):
        attempt.write_json(STEPS, {**figures, "timings": dict(timings)})


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
    """The figures of the job record that only a rank knows, but those of its steps; those of `further` as they are."""
    figures: dict[str, Any] = {
        "losses": losses,
        "tokens_per_step": tokens_per_step,
        "eval": dict(evaluated),
        "checkpoint": None if saved is None else {"path": str(saved), "step": int(saved.name.removeprefix(PREFIX))},
        "timings": dict(timings),
    }
    with storage_errors(folder):
        folder.write_json(RESULT, figures | dict(further))
