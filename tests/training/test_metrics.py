from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.training.simulated_gpu import SimulatedGpu
from tests.training.test_tensorboard import events
from training import step_clock
from training.metrics import RunMetrics, Scale, spread
from training.step_clock import BACKWARD, FORWARD, INPUT, OPTIMIZER, StepClock, StepTimes
from training.storage import LocalFolder
from training.tensorboard import EventFile

CPU = torch.device("cpu")
SCALE = Scale(tokens_per_step=4000, ranks=2, flops_per_token=1e9, peak_flops=1e13)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimulatedGpu:
    return SimulatedGpu.instead_of_cuda(monkeypatch)


def gpu_step(gpu: SimulatedGpu, clock: StepClock, step: int) -> None:
    for name, seconds in [(FORWARD, 1.0), (BACKWARD, 2.0), (FORWARD, 1.5), (BACKWARD, 2.5), (OPTIMIZER, 0.5)]:
        with clock.phase(name):
            gpu.queue(seconds)
    clock.end_step(step)


def test_a_gpu_s_times_are_those_of_its_own_work(gpu: SimulatedGpu) -> None:
    clock = StepClock(gpu.device)
    gpu_step(gpu, clock, 1)
    gpu.host = 7.75  # later than the step's end
    gpu_step(gpu, clock, 2)
    gpu_step(gpu, clock, 3)
    first, second, third = (clock.read() for _ in range(3))
    assert first.phases == {INPUT: 0.0, FORWARD: 2.5, BACKWARD: 4.5, OPTIMIZER: 0.5}, "accumulated micro-batches add up"
    assert [(times.step, times.total) for times in (first, second, third)] == [(1, 7.5), (2, 7.75), (3, 7.5)]
    assert [times.gpu_waited for times in (first, second, third)] == [None, 0.25, 0.0]


def test_reading_a_step_waits_for_it_and_for_none_after_it(gpu: SimulatedGpu) -> None:
    clock = StepClock(gpu.device)
    gpu_step(gpu, clock, 1)
    gpu_step(gpu, clock, 2)
    clock.read()
    assert gpu.host == 7.5


def test_what_happens_between_steps_on_purpose_is_a_part_of_none(gpu: SimulatedGpu) -> None:
    clock = StepClock(gpu.device)
    gpu_step(gpu, clock, 1)
    gpu.host = 107.5
    clock.restart()
    gpu_step(gpu, clock, 2)
    clock.read()
    second = clock.read()
    assert (second.total, second.gpu_waited) == (7.5, None)


def test_without_a_gpu_the_phases_are_wall_clock_time_within_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(step_clock, "time", SimpleNamespace(perf_counter=lambda: now))
    clock = StepClock(CPU)
    with clock.phase(INPUT):
        now += 0.5
    for _ in range(2):
        with clock.phase(FORWARD):
            now += 2.0
    now += 0.25
    clock.end_step(7)
    assert clock.read() == StepTimes(step=7, total=4.75, phases={INPUT: 0.5, FORWARD: 4.0}, gpu_waited=None)


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
        told.clock.end_step(step)
        told.tell({"train/loss": 4.0 - step, "train/gradient_norm": 0.5})
    seen: dict[int, dict[str, float]] = {}
    for event in events(LocalFolder(tmp_path))[2:]:
        seen.setdefault(event.step, {}).update({value.tag: value.simple_value for value in event.summary.value})
    assert seen.keys() == {1, 2}
    assert seen[2]["train/loss"] == 2.0 and seen[2]["memory/peak_gib"] == 3.0
    assert {"speed/tokens_per_second", "speed/mfu", "time/step", "time/input", "time/forward"} <= seen[1].keys()


def test_the_spread_of_one_value_is_that_value() -> None:
    assert spread([1.5]) == {"median": 1.5, "p90": 1.5} and spread([]) is None
