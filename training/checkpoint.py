"""Sharded checkpoints: every rank writes its own shards straight into the shared storage."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from training import shards
from training.checkpoint_files import Progress, read_progress, write_marker, write_progress
from training.errors import TrainingError, first_line
from training.storage import Folder


def save(folder: Folder, module: torch.nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Called by every rank. Raises TrainingError naming --storage_path where the storage refuses."""

    def begin() -> None:
        folder.remove()
        folder.make()
        write_progress(folder, progress)

    _on_rank_zero(begin, folder)
    try:
        dcp.save(_state(module, optimizer), storage_writer=shards.writer(folder))
    except CheckpointException as error:
        causes = [wrapped[0] for wrapped in error.failures.values()]
        raise _storage_error(folder, _told_by_system(folder, causes[0])) from error
    # dcp.save returns where all shards are written; only then may the marker exist.
    _on_rank_zero(lambda: write_marker(folder, progress.step, dist.get_world_size()), folder)


def load(folder: Folder, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Called by every rank, whatever number of ranks saved it."""
    state = _state(module, optimizer)
    try:
        dcp.load(state, storage_reader=shards.reader(folder))
        progress = read_progress(folder)
    except (CheckpointException, OSError) as error:
        cause = next(iter(error.failures.values()))[0] if isinstance(error, CheckpointException) else error
        raise TrainingError(
            f"--resume_from: checkpoint {folder} does not fit this model or cannot be read: {first_line(cause)}"
        ) from error
    set_state_dict(module, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return progress


def _state(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    model, optim = get_state_dict(module, optimizer)
    return {"model": model, "optimizer": optim}


def _on_rank_zero(action: Callable[[], None], folder: Folder) -> None:
    """Every rank learns whether rank 0 failed, so that none waits for it in the next collective."""
    failure: list[Any] = [None]
    if dist.get_rank() == 0:
        try:
            action()
        except OSError as error:
            failure = [str(error)]
    dist.broadcast_object_list(failure, src=0)
    if failure[0] is not None:
        raise _storage_error(folder, failure[0])


def _told_by_system(folder: Folder, cause: object) -> object:
    """Of a write that failed torch tells where in the file it stood; why, a write of our own is told by the system."""
    if isinstance(cause, OSError):
        return cause
    try:
        folder.probe()
    except FileNotFoundError:  # another rank's probe, just deleted
        return cause
    except OSError as reason:
        return reason
    return cause


def _storage_error(folder: Folder, cause: object) -> TrainingError:
    return TrainingError(f"--storage_path: checkpoint {folder} cannot be written: {cause}")
