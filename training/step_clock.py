"""Where the time of a step goes, without making a GPU wait to find out."""

import math
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
    """Wall-clock time from the end of the step before."""
    phases: dict[str, float]
    """`input`: for which the host waited. The others: of the GPU from the first kernel enqueued to the last one's end,
    waits for other ranks within; where there is no GPU, of the host."""
    gpu_waited: float | None
    """For which the GPU had nothing to do between the step before and this one's first kernel; None without a GPU."""


@dataclass
class _Step:
    step: int
    total: float
    waited: float
    spans: list[tuple[str, Any, Any]]
    """On a GPU two events each, otherwise two readings of the clock."""
    before: Any


@dataclass
class StepClock:
    """`phase` around what it names, as often as a step needs it, then `end_step`.

    A GPU's times are those of CUDA events, which are read when the GPU has come past them: a step's times are known a
    step or so later.
    """

    device: torch.device
    last_total: float = math.inf
    """Seconds of wall-clock time of the step that ended last."""
    _waited: float = 0.0
    _spans: list[tuple[str, Any, Any]] = field(default_factory=list)
    _unread: deque[_Step] = field(default_factory=deque)
    _last_event: Any = None
    _last_end: float = field(default_factory=time.perf_counter)

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

    def end_step(self, step: int) -> list[StepTimes]:
        """The times that have become known since, in order."""
        now = time.perf_counter()
        self.last_total = now - self._last_end
        self._unread.append(_Step(step, self.last_total, self._waited, self._spans, self._last_event))
        self._last_event = self._spans[-1][2] if self._spans else None
        self._last_end, self._waited, self._spans = now, 0.0, []
        known = []
        while self._unread and self._passed(self._unread[0]):
            known.append(self._read(self._unread.popleft()))
        return known

    def restart(self) -> None:
        """What was done since the last step, an evaluation say, is no part of the next."""
        self._last_end, self._waited, self._spans, self._last_event = time.perf_counter(), 0.0, [], None

    def finish(self) -> list[StepTimes]:
        """Those still unknown; waits for the GPU."""
        if self._on_gpu and self._unread:
            torch.cuda.synchronize(self.device)
        known = [self._read(step) for step in self._unread]
        self._unread.clear()
        return known

    @property
    def _on_gpu(self) -> bool:
        return bool(self.device.type == "cuda")

    def _mark(self) -> Any:
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _passed(self, step: _Step) -> bool:
        return not self._on_gpu or all(bool(end.query()) for _, _, end in step.spans[-1:])

    def _read(self, step: _Step) -> StepTimes:
        phases = {INPUT: step.waited}
        for name, begin, end in step.spans:
            phases[name] = phases.get(name, 0.0) + self._between(begin, end)
        gpu_waited = self._between(step.before, step.spans[0][1]) if step.before is not None and step.spans else None
        return StepTimes(step.step, step.total, phases, gpu_waited if self._on_gpu else None)

    def _between(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) / 1000 if self._on_gpu else float(end - begin)
