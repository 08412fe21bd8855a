"""The batches of a run in their order, made ahead in a thread while the step before is computed."""

import queue
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import torch

from training.data import Batch, Dataset

AHEAD = 3
_LOOK_S = 0.2


class Feed:
    """Call next() once for each micro-step of each step. Everything it starts ends with close()."""

    def __init__(
        self,
        dataset: Dataset,
        *,
        consumed: int,
        steps: int,
        micro_steps: int,
        rank: int,
        world_size: int,
        rows: int,
        device: torch.device,
    ) -> None:
        """`consumed` as in Dataset.train_batch, of the first of `steps` further steps."""
        self.waited_s = 0.0
        """Seconds that next() has waited for a batch: nothing where input is no bottleneck."""
        self._device = device
        self._ready: queue.Queue[Batch | BaseException] = queue.Queue(AHEAD)
        self._closed = threading.Event()
        per_step = rows * world_size * micro_steps

        def batches() -> Iterator[Batch]:
            for step in range(steps):
                for micro_step in range(micro_steps):
                    yield dataset.train_batch(consumed + step * per_step, micro_step, rank, world_size, rows)

        self._thread = threading.Thread(target=self._work, args=(batches(),), name="feed", daemon=True)
        self._thread.start()

    def next(self) -> Batch:
        """On the device; the copy to a GPU is enqueued and not waited for. Raises what reading the batch raised."""
        asked = time.perf_counter()
        batch = self._ready.get()
        self.waited_s += time.perf_counter() - asked
        if isinstance(batch, BaseException):
            raise batch
        return batch.to(self._device)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _work(self, batches: Iterator[Batch]) -> None:
        try:
            if self._device.type == "cuda":
                torch.cuda.set_device(self._device)  # a thread begins with the first GPU, and would pin memory for that
            for batch in batches:
                if not self._hand_over(batch.pinned() if self._device.type == "cuda" else batch):
                    return
        except BaseException as error:
            self._hand_over(error)

    def _hand_over(self, item: Batch | BaseException) -> bool:
        while not self._closed.is_set():
            try:
                self._ready.put(item, timeout=_LOOK_S)
            except queue.Full:
                continue
            return True
        return False
