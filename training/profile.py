"""The profiler's view of steps that the user names: a trace of each rank, and how long ranks waited for each other."""

import gzip
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from training.intervals import Interval, length, uncovered
from training.storage import Folder, storage_errors

_BETWEEN_GPUS = ("ncclDevKernel", "Memcpy PtoP", "symmetric_memory::barrier")
"""In the names of what moves data between GPUs or waits for another one."""


@dataclass(frozen=True)
class Overlap:
    """Seconds of one rank's step."""

    communication: float
    exposed_communication: float
    """During which collectives ran and nothing was computed."""
    compute: float


@dataclass
class StepProfiler:
    """`around` every step; only those named are profiled, each into a Chrome trace of its own (for Perfetto)."""

    steps: Collection[int]
    folder: Folder
    rank: int
    device: torch.device
    overlaps: dict[int, Overlap] = field(default_factory=dict)

    @contextmanager
    def around(self, step: int) -> Iterator[None]:
        """Raises TrainingError naming --storage_path where the trace cannot be written."""
        if step not in self.steps:
            yield
            return
        activities = [ProfilerActivity.CPU]
        if self.device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        with profile(activities=activities) as profiler:
            yield
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
        self.overlaps[step] = overlap(profiler.events(), on_gpu=self.device.type == "cuda")
        with storage_errors(self.folder):
            self._keep(profiler, f"step-{step:06d}-rank-{self.rank:05d}.json.gz")

    def figures(self) -> dict[str, Any]:
        """For the run's record: by step, of this rank."""
        return {str(step): vars(found) for step, found in self.overlaps.items()}

    def _keep(self, profiler: Any, name: str) -> None:
        self.folder.make()
        with tempfile.TemporaryDirectory() as directory:
            trace = Path(directory, "trace.json")
            profiler.export_chrome_trace(str(trace))
            with (
                trace.open("rb") as told,
                self.folder.open_write(name) as stream,
                gzip.open(stream, "wb", compresslevel=4) as packed,
            ):
                shutil.copyfileobj(told, packed)


def overlap(events: Sequence[Any], *, on_gpu: bool) -> Overlap:
    """From torch.profiler's events. On a GPU its kernels count; otherwise gloo's threads against the operators."""
    communication: list[Interval] = []
    compute: list[Interval] = []
    for event in events:
        span = (event.time_range.start / 1e6, event.time_range.end / 1e6)
        if on_gpu:
            if event.device_type != torch.autograd.DeviceType.CUDA or event.is_user_annotation:
                continue
            (communication if any(name in event.name for name in _BETWEEN_GPUS) else compute).append(span)
        elif event.name.startswith("gloo:"):
            communication.append(span)
        elif event.name.startswith("aten::"):
            compute.append(span)
    return Overlap(length(communication), uncovered(communication, compute), length(compute))
