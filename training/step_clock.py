"""Where the time of a step goes, without making a GPU wait to find out."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

INPUT, FORWARD, BACKWARD, OPTIMIZER = PHASES = ("input", "forward", "backward", "optimizer")


@dataclass(frozen=True)
class StepTimes:
    """Seconds of one step on one rank."""

    step: int
    total: float
    """From the end of the step before, or from the restart, to this one's. On a GPU they are ends there: the host is a
    step ahead, or waits, so that what it sees is not the step's time."""
    phases: dict[str, float]
    """`input`: for which the host waited. The others: of the GPU from the first kernel enqueued to the last one's end,
    waits for other ranks within; where there is no GPU, of the host."""
    gpu_waited: float | None
    """For which the GPU had nothing to do between the step before and this one's first kernel; None without a GPU, and
    after a restart."""


@dataclass
class _Step:
    """On a GPU marks are events, otherwise readings of the clock."""

    step: int
    start: Any
    follows: bool
    waited: float
    spans: list[tuple[str, Any, Any]]
    end: Any


@dataclass
class StepClock:
    """`phase` around what it names, as often as a step needs it, `end_step` when all of it is queued; `read` later.

    A GPU's times are those of CUDA events, so that they are true however far the host is ahead.
    """

    device: torch.device
    _unread: deque[_Step] = field(default_factory=deque, init=False)

    def __post_init__(self) -> None:
        self.restart()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        if name == INPUT:
            started = time.perf_counter()
            yield
            self._waited += time.perf_counter() - started
            return
        begin = self._mark()
        yield
        self._spans.append((name, begin, self._mark()))

    def end_step(self, step: int) -> None:
        end = self._mark()
        self._unread.append(_Step(step, self._start, self._follows, self._waited, self._spans, end))
        self._begin(end, follows=True)

    def restart(self) -> None:
        """What was done since the last step, an evaluation say, is no part of the next."""
        self._begin(self._mark(), follows=False)

    def read(self) -> StepTimes:
        """Of the oldest step not yet read. Waits for its end: where its figures have arrived that costs no time."""
        step = self._unread.popleft()
        if self._on_gpu:
            step.end.synchronize()
        phases = {INPUT: step.waited}
        for name, begin, end in step.spans:
            phases[name] = phases.get(name, 0.0) + self._between(begin, end)
        idle = self._on_gpu and step.follows and step.spans
        gpu_waited = self._between(step.start, step.spans[0][1]) if idle else None
        return StepTimes(step.step, self._between(step.start, step.end), phases, gpu_waited)

    def _begin(self, start: Any, *, follows: bool) -> None:
        self._start, self._follows = start, follows
        self._waited = 0.0
        self._spans: list[tuple[str, Any, Any]] = []

    @property
    def _on_gpu(self) -> bool:
        return bool(self.device.type == "cuda")

    def _mark(self) -> Any:
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) / 1000 if self._on_gpu else float(end - begin)
