import re
from pathlib import Path

import pytest
import torch

from tests.training.simulated_gpu import SimulatedEvent, SimulatedGpu
from tests.training.test_tensorboard import events
from training.metrics import RunMetrics, Scale
from training.step import PendingFigures, StepFigures
from training.step_clock import StepClock
from training.storage import LocalFolder
from training.tensorboard import EventFile
from training.told import Told

SCALE = Scale(tokens_per_step=1000, ranks=1, flops_per_token=1.0, peak_flops=20_000.0)
HOST_S, STEP_S, EVALUATION_S = 0.003, 0.1, 5.0


class Pending(PendingFigures):
    """Of a step that a simulated GPU works on."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._event = SimulatedEvent(gpu)
        self._event.record()

    def read(self) -> StepFigures:
        self._event.synchronize()
        return StepFigures(1.0, 1.0, 1)


def train(gpu: SimulatedGpu, told: Told, *, steps: int, evaluate_every: int) -> None:
    """As train_steps does: every step takes the GPU STEP_S, and the host HOST_S to queue."""
    clock = told.metrics.clock
    clock.restart()
    for step in range(1, steps + 1):
        wait = step % evaluate_every == 0
        gpu.host += HOST_S
        gpu.queue(STEP_S)
        told.end_step(step, Pending(gpu), 0.0, wait=wait)
        if wait:
            gpu.host += EVALUATION_S
            clock.restart()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimulatedGpu:
    return SimulatedGpu.instead_of_cuda(monkeypatch)


def test_a_step_is_told_with_its_own_speed_also_around_what_the_run_waits_for(
    gpu: SimulatedGpu, tmp_path: Path
) -> None:
    lines: list[str] = []
    metrics = RunMetrics(StepClock(gpu.device), SCALE, lambda: 0, EventFile(LocalFolder(tmp_path), first_step=1))
    told = Told(15, metrics, lines.append, [], None, ahead=1)
    train(gpu, told, steps=15, evaluate_every=5)
    # After a restart the GPU waits for its first work.
    seconds = [STEP_S + HOST_S if step % 5 == 1 else STEP_S for step in range(1, 16)]
    assert [times.total for times in metrics.steps] == pytest.approx(seconds)
    speeds = [int(re.findall(r"tokens/s (\d+)", line)[0]) for line in lines]
    assert speeds == [round(1000 / one) for one in seconds]
    shown = {
        event.step: value.simple_value
        for event in events(LocalFolder(tmp_path))[2:]
        for value in event.summary.value
        if value.tag == "speed/mfu"
    }
    assert shown == pytest.approx({step: 1000 / one / 20_000 for step, one in enumerate(seconds, start=1)})
    assert metrics.summary()["step_seconds"]["p90"] == pytest.approx(STEP_S + HOST_S)


def test_the_gpu_always_has_a_step_to_work_on_while_one_is_told(gpu: SimulatedGpu) -> None:
    told = Told(20, RunMetrics(StepClock(gpu.device), SCALE, lambda: 0), lambda line: None, [], None, ahead=1)
    train(gpu, told, steps=20, evaluate_every=100)
    told.settle()
    assert gpu.host == pytest.approx(HOST_S + 20 * STEP_S)
    assert [step for step, _ in told.losses] == list(range(1, 21))


def test_without_a_gpu_a_step_is_told_as_soon_as_it_ends() -> None:
    lines: list[str] = []
    told = Told(2, RunMetrics(StepClock(torch.device("cpu")), SCALE, lambda: 0), lines.append, [], None, ahead=0)
    told.end_step(1, PendingFigures(torch.tensor([2.5, 0.5, 10.0])), 0.0, wait=False)
    assert told.losses == [(1, 2.5)] and lines[0].startswith("step 1/2 loss 2.5000 tokens/s ")
