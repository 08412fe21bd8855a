"""What a run tells of its steps: to TensorBoard and Ray's metrics while it goes on, and in sum to its record. Rank 0's
own view."""

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from training.live_metrics import GIB, LiveMetrics
from training.measure import WARM_UP_STEPS
from training.step_clock import PHASES, StepClock, StepTimes
from training.tensorboard import EventFile


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What turns seconds into speed."""

    tokens_per_step: int
    """Of all ranks."""
    ranks: int
    flops_per_token: float | None = None
    """Forward and backward, by the model's shape; without it, or without the peak, there is no MFU."""
    peak_flops: float | None = None
    """A second, of one rank's device."""

    def tokens_per_second(self, step_s: float) -> float:
        return self.tokens_per_step / step_s

    def utilization(self, step_s: float) -> float | None:
        """MFU, a share of 1."""
        if self.flops_per_token is None or self.peak_flops is None:
            return None
        return self.tokens_per_second(step_s) / self.ranks * self.flops_per_token / self.peak_flops


@dataclass
class RunMetrics:
    """`clock` times the steps of one attempt; `events` and `live` are None on all ranks but the one that tells."""

    clock: StepClock
    scale: Scale
    peak_memory_bytes: Callable[[], int]
    events: EventFile | None = None
    live: LiveMetrics | None = None
    slowed: Collection[int] = ()
    """Steps under the profiler, whose times say nothing of the others."""
    steps: list[StepTimes] = field(default_factory=list)

    def tell(self, figures: Mapping[str, float]) -> StepTimes:
        """The oldest step that is not told yet, and the times of it; `figures` by their tags, such as train/loss."""
        times = self.clock.read()
        self.steps.append(times)
        if self.events is not None or self.live is not None:
            scalars = {**figures, **self._scalars(times)}
            if self.events is not None:
                self.events.add(times.step, scalars)
            if self.live is not None:
                self.live.tell(times.step, scalars)
        return times

    def publish(self) -> None:
        """For storage that shows a file only when it is whole: call it at checkpoints."""
        if self.events is not None:
            self.events.publish()

    def summary(self) -> dict[str, Any]:
        """For the run's record, of the steps that were told; nothing of it where there are none."""
        self.publish()
        steady = [times for times in self.steps[WARM_UP_STEPS:] or self.steps if times.step not in self.slowed]
        total = spread([times.total for times in steady])
        if total is None:
            return {"step_seconds": None, "tokens_per_second": None, "mfu": None, "split_seconds": {}}
        phases = dict.fromkeys([*PHASES, *(phase for times in steady for phase in times.phases)])
        return {
            "step_seconds": total | {"first": self.steps[0].total},
            "tokens_per_second": self.scale.tokens_per_second(total["median"]),
            "mfu": self.scale.utilization(total["median"]),
            "split_seconds": {
                phase: spread([times.phases[phase] for times in steady if phase in times.phases]) for phase in phases
            }
            | {"gpu_waited": spread([times.gpu_waited for times in steady if times.gpu_waited is not None])},
        }

    def total_s(self) -> float:
        """Of all steps that were told."""
        return sum(times.total for times in self.steps)

    def _scalars(self, times: StepTimes) -> dict[str, float]:
        scalars = {
            "speed/tokens_per_second": self.scale.tokens_per_second(times.total),
            "memory/peak_gib": self.peak_memory_bytes() / GIB,
            "time/step": times.total,
        }
        scalars |= {f"time/{phase}": seconds for phase, seconds in times.phases.items()}
        mfu = self.scale.utilization(times.total)
        if mfu is not None:
            scalars["speed/mfu"] = mfu
        if times.gpu_waited is not None:
            scalars["time/gpu_waited"] = times.gpu_waited
        return scalars


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Median and 90th percentile; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return {
        "median": statistics.median(ordered),
        "p90": ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))],
    }
