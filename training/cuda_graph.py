"""A whole step recorded once and replayed: the CPU then queues one operation instead of some ten thousand."""

from collections.abc import Sequence

import torch
from torch.distributed.fsdp import FSDPModule

from training.step import Batch, PendingFigures, TrainStep

WARM_UP_STEPS = 3


class RecordedStep:
    """As TrainStep. Steps of the shapes of the first one are replayed; any other runs as it would without this.

    The first steps run unrecorded: they compile, make the optimizer's state and open NCCL's connections. The recording
    itself changes nothing, it is replayed for its own step right away.
    """

    def __init__(self, step: TrainStep) -> None:
        self._step = step
        self._step.clock = None  # events within a recording cannot be read
        self._shapes: list[dict[str, torch.Size]] | None = None
        self._run = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[dict[str, torch.Tensor]] = []
        self._figures = torch.empty(0)
        self._stream = torch.cuda.Stream()

    def __call__(self, batches: Sequence[Batch]) -> PendingFigures:
        shapes = [{name: tensor.shape for name, tensor in batch.items()} for batch in batches]
        if self._shapes is None:
            self._shapes = shapes
        if shapes != self._shapes:
            return self._step(batches)
        if self._run < WARM_UP_STEPS:
            self._run += 1
            return self._unrecorded(batches)
        # What an evaluation left gathered is older than the weights that the replay will make.
        for module in self._step.model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()
        if self._graph is None:
            self._record(batches)
        assert self._graph is not None
        for held, batch in zip(self._inputs, batches, strict=True):
            for name, tensor in batch.items():
                held[name].copy_(tensor, non_blocking=True)
        self._graph.replay()
        return PendingFigures(self._figures)

    def _unrecorded(self, batches: Sequence[Batch]) -> PendingFigures:
        """On the stream that is recorded later, whose memory the recording may then use."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            pending = self._step(batches)
        torch.cuda.current_stream().wait_stream(self._stream)
        return pending

    def _record(self, batches: Sequence[Batch]) -> None:
        self._inputs = [{name: tensor.clone() for name, tensor in batch.items()} for batch in batches]
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        # Only this thread's calls are kept from what a recording forbids: NCCL's watchdog goes on asking its events.
        with torch.cuda.graph(self._graph, stream=self._stream, capture_error_mode="thread_local"):
            self._figures = self._step.queue(self._inputs)
