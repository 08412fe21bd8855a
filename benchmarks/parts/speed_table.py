"""What training_speed measures of a loop, and the rows that tell it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.parts.loop_setting import Loop
from training.gpu_peaks import Gpu
from training.metrics import Scale

REFERENCES = ("seed", "unsharded")


@dataclass
class Arm:
    name: str
    run: Loop
    built_s: float
    peak_gib: float
    """Of torch's allocator in the third step and of shared memory, without what the other loops hold."""
    planned_gib: float | None
    rounds: list[float] = field(default_factory=list)
    """Seconds a step, of the slowest rank."""
    waited_s: float | None = None
    """A step, of this rank for its batch, where a feed makes them."""


def table(
    arms: Sequence[Arm], tokens: int, ranks: int, flops_per_token: float, gpu: Gpu | None
) -> list[dict[str, Any]]:
    """One row for each loop; `tokens` of one rank's step."""
    rows = []
    medians = {arm.name: statistics.median(arm.rounds) for arm in arms}
    for arm in arms:
        step_s = medians[arm.name]
        row: dict[str, Any] = {
            "loop": arm.name,
            "step_ms": round(1000 * step_s, 2),
            "rounds_ms": [round(1000 * seconds, 2) for seconds in arm.rounds],
            "tokens_per_second": round(tokens * ranks / step_s),
            "peak_gib": round(arm.peak_gib, 2),
            "planned_gib": None if arm.planned_gib is None else round(arm.planned_gib, 2),
            "built_s": round(arm.built_s, 1),
        }
        if arm.waited_s is not None:
            row["waited_ms"] = round(1000 * arm.waited_s, 3)
        if gpu is not None:
            scale = Scale(tokens_per_step=tokens, ranks=1, flops_per_token=flops_per_token, peak_flops=gpu.peak_flops)
            row["mfu"] = round(scale.utilization(step_s) or 0.0, 4)
        for other in REFERENCES:
            if other in medians:
                row[f"times_{other}"] = round(medians[other] / step_s, 3)
        rows.append(row)
    return rows
