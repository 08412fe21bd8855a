"""A GPU and the host that queues its work, on a timeline of their own."""

from dataclasses import dataclass

import pytest
import torch


@dataclass
class SimulatedGpu:
    """Seconds; queued work begins as soon as the host has queued it and what was before is done."""

    host: float = 0.0
    """What the host's time is: the test moves it on, and waiting does."""
    done: float = 0.0
    """When all is done that is queued so far."""
    device = torch.device("cuda")

    @classmethod
    def instead_of_cuda(cls, monkeypatch: pytest.MonkeyPatch) -> "SimulatedGpu":
        gpu = cls()
        monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing=False: SimulatedEvent(gpu))
        return gpu

    def queue(self, seconds: float) -> None:
        self.done = max(self.host, self.done) + seconds


@dataclass
class SimulatedEvent:
    gpu: SimulatedGpu
    at: float = 0.0

    def record(self) -> None:
        self.gpu.queue(0.0)
        self.at = self.gpu.done

    def synchronize(self) -> None:
        self.gpu.host = max(self.gpu.host, self.at)

    def elapsed_time(self, end: "SimulatedEvent") -> float:
        """Milliseconds."""
        assert self.gpu.host >= end.at, "CUDA refuses to tell of an event that has not come"
        return (end.at - self.at) * 1000
