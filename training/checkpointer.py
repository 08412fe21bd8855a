"""A run's checkpoints, made while training goes on.

save() copies the state into host memory and returns; a thread of each rank writes the copy. (Copying could go on during
the next forward and backward, were a step not sometimes one recorded CUDA graph, whose update nothing can hold back.)

The threads agree over a process group of their own: two that use one group meet each other's messages, and NCCL's have
no CPU side. A thread, and not the process that torch has for this: that one needs shared memory, of which a pod has
64 MiB by default, and imports all that a rank imports once more.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from training import checkpoint
from training.checkpoint_files import Progress, step_folder
from training.errors import TrainingError
from training.model_files import model_files
from training.storage import Folder

PATIENCE_S = 1800.0
"""How long the fastest rank waits for the slowest to have written its shards."""
LAST_WAIT_S = 120.0
"""How long a run that fails still gives the checkpoint in flight."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that is whole. Seconds from the copy in host memory to the marker."""

    folder: Folder
    step: int
    written_s: float


@dataclass(frozen=True)
class Failed:
    """A checkpoint that was not written, or not to its end; `ends`: save() or finish() is sure to raise it."""

    step: int
    error: Exception
    ends: bool


class Checkpointer:
    """Made by every rank together, and used by every rank alike: what it says, it says to all of them.

    At most one checkpoint is in flight: the next waits for it. One that storage refuses is told at once, and costs no
    more than itself: the state that the next save() is called with is as good as ever, so save() writes that one, waits
    for it, and raises only where it is refused too; finish() raises where the last one was. Errors are TrainingErrors
    naming --storage_path, on every rank. As a context manager it ends with finish().

    Mode sync waits for each checkpoint, and needs no host memory for a copy.
    """

    def __init__(
        self,
        checkpoints: Folder,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        mode: str = "async",
        keep: int = 0,
        protected: Folder | None = None,
        last_step: int | None = None,
        files: Mapping[str, bytes] | None = None,
        told: Callable[[Saved], None] = lambda saved: None,
        failed: Callable[[Failed], None] = lambda failed: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`keep`: the newest so many stay, 0 for all; `protected` always does, and that of
        `last_step` takes no other's place. `files`: rank 0's for the model.

        `told` is called as soon as a checkpoint is whole, `failed` as soon as one is not going to be, while training
        goes on.
        """
        self._checkpoints, self._module, self._optimizer = checkpoints, module, optimizer
        self._sync, self._keep, self._protected = mode == "sync", keep, protected
        self._last_step = last_step
        self._files = model_files(module) if files is None else files
        self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=patience_s))
        on_gpu = next(module.parameters()).device.type == "cuda"
        # Its memory is pinned where there is a GPU, and kept from one checkpoint to the next.
        self._stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=on_gpu, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=on_gpu
            )
        )
        self._told, self._failed = told, failed
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._in_flight: Future[Saved] | None = None
        self._refused: TrainingError | None = None
        """What became of the newest checkpoint, the same on every rank."""
        self.count = 0
        self.exposed_s = 0.0
        """Seconds for which training stood still."""
        self.written_s = 0.0

    def save(self, progress: Progress) -> Saved | None:
        """Called by every rank. Returns the checkpoint that has become whole since: this one where it waits for it."""
        started = time.perf_counter()
        done = self._wait()
        progress = replace(progress, losses=list(progress.losses))  # the caller's own goes on growing
        state = checkpoint.state_of(self._module, self._optimizer)
        if self._sync or self._refused is not None:
            done = self._write_at_once(state, progress)
        else:
            self._in_flight = self._thread.submit(self._write, self._stager.stage(state), progress)
        self.exposed_s += time.perf_counter() - started
        return done

    def finish(self) -> Saved | None:
        """Wait for the one in flight. Returns it, or None where there is none; raises where the newest was refused."""
        started = time.perf_counter()
        done = self._wait()
        self.exposed_s += time.perf_counter() - started
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused
        return done

    def figures(self) -> dict[str, Any]:
        """For the run's record: seconds in sum over all checkpoints that are whole."""
        return {
            "mode": "sync" if self._sync else "async",
            "count": self.count,
            "exposed_s": self.exposed_s,
            "written_s": self.written_s,
        }

    def __enter__(self) -> "Checkpointer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.finish()
            elif self._in_flight is not None:
                wait_for([self._in_flight], LAST_WAIT_S)
        finally:
            self._thread.shutdown(wait=False)
            self._stager.close()

    def _write_at_once(self, state: checkpoint.State, progress: Progress) -> Saved | None:
        """None where storage refuses this one and took the one before."""
        try:
            done = self._counted(self._write(state, progress))
        except TrainingError as error:
            if self._refused is not None:
                raise
            self._refused = error
            return None
        self._refused = None
        return done

    def _write(self, state: checkpoint.State, progress: Progress) -> Saved:
        started = time.perf_counter()
        folder = step_folder(self._checkpoints, progress.step)
        try:
            checkpoint.write(folder, state, progress, self._files, self._group)
            if self._keep and progress.step != self._last_step:
                checkpoint.delete_old(self._checkpoints, self._keep, self._protected, self._group)
        except Exception as error:
            # Of a TrainingError all ranks know; any other may be this one's alone, or of a group that is no more.
            again = isinstance(error, TrainingError) and self._refused is None
            self._failed(Failed(progress.step, error, ends=not again))
            raise
        saved = Saved(folder, progress.step, time.perf_counter() - started)
        self._told(saved)
        return saved

    def _wait(self) -> Saved | None:
        if self._in_flight is None:
            return None
        in_flight, self._in_flight = self._in_flight, None
        try:
            return self._counted(in_flight.result())
        except TrainingError as error:
            self._refused = error
            return None

    def _counted(self, saved: Saved) -> Saved:
        self.count += 1
        self.written_s += saved.written_s
        return saved
