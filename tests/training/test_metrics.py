import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.test_tensorboard import events
from training.metrics import RunMetrics, Scale, spread
from training.step_clock import BACKWARD, FORWARD, INPUT, OPTIMIZER, StepClock, StepTimes
from training.storage import LocalFolder
from training.tensorboard import EventFile

CPU = torch.device("cpu")
SCALE = Scale(tokens_per_step=4000, ranks=2, flops_per_token=1e9, peak_flops=1e13)


class Event:
    """A CUDA event on a timeline that the test moves on; the GPU has come as far as `reached`."""

    enqueued = 0.0
    reached = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = Event.enqueued

    def query(self) -> bool:
        return Event.reached >= self.at

    def elapsed_time(self, end: "Event") -> float:
        assert end.query(), "read before the GPU was there: that would wait"
        return (end.at - self.at) * 1000


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> StepClock:
    Event.enqueued = Event.reached = 0.0
    monkeypatch.setattr(torch.cuda, "Event", Event)

    def synchronize(device: torch.device) -> None:
        Event.reached = Event.enqueued

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    return StepClock(torch.device("cuda"))


def gpu_step(clock: StepClock, step: int, *, idle: float = 0.0) -> list[StepTimes]:
    Event.enqueued += idle
    for name, seconds in [(FORWARD, 1.0), (BACKWARD, 2.0), (FORWARD, 1.5), (BACKWARD, 2.5), (OPTIMIZER, 0.5)]:
        with clock.phase(name):
            Event.enqueued += seconds
    return clock.end_step(step)


def test_a_gpu_s_times_are_read_once_it_has_come_past_them_and_no_sooner(gpu: StepClock) -> None:
    assert gpu_step(gpu, 1) == []
    assert gpu_step(gpu, 2, idle=0.25) == []
    Event.reached = 7.5
    (first,) = gpu_step(gpu, 3)
    assert first.step == 1 and first.gpu_waited is None
    assert first.phases == {INPUT: 0.0, FORWARD: 2.5, BACKWARD: 4.5, OPTIMIZER: 0.5}, "accumulated micro-batches add up"
    second, third = gpu.finish()
    assert (second.gpu_waited, third.gpu_waited) == (0.25, 0.0)
    assert gpu.finish() == []


def test_what_happens_between_steps_on_purpose_is_not_idle_time(gpu: StepClock) -> None:
    gpu_step(gpu, 1)
    Event.enqueued += 100
    gpu.restart()
    gpu_step(gpu, 2)
    _, second = gpu.finish()
    assert second.gpu_waited is None and second.total < 10


def test_without_a_gpu_the_phases_are_wall_clock_time_within_the_step() -> None:
    clock = StepClock(CPU)
    with clock.phase(INPUT):
        time.sleep(0.02)
    for _ in range(2):
        with clock.phase(FORWARD):
            time.sleep(0.03)
    time.sleep(0.01)
    (times,) = clock.end_step(7)
    assert times.step == 7 and times.gpu_waited is None
    assert 0.02 <= times.phases[INPUT] < 0.03 + 0.2
    assert 0.06 <= times.phases[FORWARD] < 0.06 + 0.2
    assert times.total >= sum(times.phases.values()) + 0.01


def metrics(steps: list[StepTimes], **more: Any) -> RunMetrics:
    return RunMetrics(StepClock(CPU), SCALE, lambda: 3 * 2**30, steps=steps, **more)


def times(step: int, total: float, **phases: float) -> StepTimes:
    return StepTimes(step, total, phases, total / 10)


def test_speed_is_that_of_the_median_step_after_warm_up() -> None:
    seconds = [60.0, 9.0, 5.0, 2.0, 2.0, 2.0, 2.0, 4.0]
    told = metrics([times(step, total, forward=total / 4) for step, total in enumerate(seconds, start=1)]).summary()
    assert told["step_seconds"] == {"median": 2.0, "p90": 4.0, "first": 60.0}
    assert told["tokens_per_second"] == 2000.0
    assert told["mfu"] == pytest.approx(2000 / 2 * 1e9 / 1e13)
    assert told["split_seconds"]["forward"] == {"median": 0.5, "p90": 1.0}
    assert told["split_seconds"]["gpu_waited"] == {"median": 0.2, "p90": 0.4}
    assert told["split_seconds"]["backward"] is None, "what was not measured is not told as zero"


def test_a_phase_of_another_name_is_told_too() -> None:
    """A step that is one recorded graph has no forward and no backward to tell apart."""
    told = metrics([times(step, 2.0, replay=1.5) for step in range(1, 6)]).summary()
    assert told["split_seconds"]["replay"] == {"median": 1.5, "p90": 1.5}


def test_a_profiled_step_does_not_count() -> None:
    seconds = [1.0, 1.0, 1.0, 2.0, 50.0, 2.0]
    steps = [times(step, total) for step, total in enumerate(seconds, start=1)]
    assert metrics(steps, slowed={5}).summary()["step_seconds"]["p90"] == 2.0


def test_a_device_whose_peak_is_unknown_has_no_utilization() -> None:
    assert Scale(tokens_per_step=10, ranks=1, flops_per_token=5.0).utilization(1.0) is None
    assert metrics([]).summary()["tokens_per_second"] is None


def test_every_step_is_told_with_its_speed_and_its_split(tmp_path: Path) -> None:
    told = metrics([], events=EventFile(LocalFolder(tmp_path), first_step=1))
    for step in (1, 2):
        with told.clock.phase(FORWARD):
            pass
        told.end_step(step, {"train/loss": 4.0 - step, "train/gradient_norm": 0.5})
    told.summary()
    seen: dict[int, dict[str, float]] = {}
    for event in events(LocalFolder(tmp_path))[2:]:
        seen.setdefault(event.step, {}).update({value.tag: value.simple_value for value in event.summary.value})
    assert seen.keys() == {1, 2}
    assert seen[2]["train/loss"] == 2.0 and seen[2]["memory/peak_gib"] == 3.0
    assert {"speed/tokens_per_second", "speed/mfu", "time/step", "time/input", "time/forward"} <= seen[1].keys()


def test_the_spread_of_one_value_is_that_value() -> None:
    assert spread([1.5]) == {"median": 1.5, "p90": 1.5} and spread([]) is None
