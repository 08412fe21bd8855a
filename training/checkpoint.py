"""Sharded checkpoints: every rank writes its own shards straight into the shared storage."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from training.checkpoint_files import (
    Progress,
    discard,
    prune,
    ranks_of,
    read_progress,
    write_marker,
    write_progress,
)
from training.errors import TrainingError, first_line
from training.model_files import MODEL, language_model, model_files
from training.optimizer import changes
from training.random_state import RandomState
from training.shards import ShardReader, ShardWriter
from training.storage import Folder

OWN = "the run's own"
State = dict[str, Any]
_WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.")
"""What torch.compile and activation checkpointing put into a parameter's name, and state dicts leave out."""


def save(folder: Folder, module: torch.nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Called by every rank; it waits for all. Raises TrainingError naming --storage_path where the storage refuses."""
    write(folder, state_of(module, optimizer), progress, model_files(module))


def write(
    folder: Folder,
    state: State,
    progress: Progress,
    files: Mapping[str, bytes],
    group: dist.ProcessGroup | None = None,
) -> None:
    """`state` as `state_of` gave it, or a copy of it; `files` are rank 0's.

    The group's collectives must be this call's alone while it lasts. Raises TrainingError, on every rank.
    """

    def begin() -> None:
        discard(folder)
        folder.make()
        write_progress(folder, progress)
        (folder / MODEL).make()
        for name, content in files.items():
            with (folder / MODEL).open_write(name) as stream:
                stream.write(content)

    _on_rank_zero(begin, folder, group)
    writer = ShardWriter(folder)
    try:
        dcp.save(state, storage_writer=writer, process_group=group)
    except CheckpointException as error:
        cause = first_cause(error)
        raise _storage_error(folder, "written", cause) from cause
    # dcp.save returns where all shards are written; only then may the marker exist.
    _on_rank_zero(lambda: write_marker(folder, progress.step, dist.get_world_size(), writer.written), folder, group)


def delete_old(
    checkpoints: Folder, keep: int, protected: Folder | None = None, group: dist.ProcessGroup | None = None
) -> None:
    """Called by every rank. Leaves the newest `keep`, at least 1, and the protected one."""
    _on_rank_zero(lambda: prune(checkpoints, keep, protected), checkpoints, group, "deleted")


def load(
    folder: Folder,
    module: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    which: str = OWN,
    say: Callable[[str], object] = lambda line: None,
) -> Progress:
    """Called by every rank, whatever number of ranks saved it, and however they were placed.

    The optimizer's numbers and what decays stay as they were asked for; `say` is told where the checkpoint's differ.
    Random streams go on where they stood if as many ranks saved it; otherwise each rank gets one that follows from it.
    Raises TrainingError that begins with `which`: the argument by which this checkpoint was found.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    try:
        saved_ranks = ranks_of(folder)
        state = state_of(module, optimizer, rank % saved_ranks)
        asked = [dict(group) for group in state["optimizer"]["param_groups"]]
        dcp.load(state, storage_reader=ShardReader(folder))
        progress = read_progress(folder)
    except (CheckpointException, OSError, ValueError, KeyError) as error:
        cause = first_cause(error) if isinstance(error, CheckpointException) else error
        raise TrainingError(
            f"{which} checkpoint {folder} does not fit this model or cannot be read: {first_line(cause)}"
        ) from cause
    for line in changes(state["optimizer"]["param_groups"], asked):
        say(line)
    state["optimizer"]["param_groups"] = asked
    prefix = _plain(language_model(module)[0])
    model, optim = _renamed(state["model"], state["optimizer"], lambda name: prefix + name)
    for alias, name in _aliases(module).items():
        model[alias] = model[name]
    set_state_dict(module, optimizer, model_state_dict=model, optim_state_dict=optim)
    (random_state,) = state["random"].values()
    random_state.restore()
    if saved_ranks != world_size:
        random_state.reseed(rank, world_size)
    return progress


def state_of(module: torch.nn.Module, optimizer: torch.optim.Optimizer, random_of_rank: int | None = None) -> State:
    """What a checkpoint holds of a rank: the very tensors, not copies.

    Names are those of the language model's own, whatever is wrapped around it; of tied weights there is one.
    """
    # Of the whole module and not of the model in it: FSDP's hooks, which give the shards, are those of its root.
    model, optim = get_state_dict(module, optimizer)
    for alias in _aliases(module):
        del model[alias]
    prefix = _plain(language_model(module)[0])
    model, optim = _renamed(model, optim, lambda name: name.removeprefix(prefix))
    rank = dist.get_rank() if random_of_rank is None else random_of_rank
    return {"model": model, "optimizer": optim, "random": {f"rank-{rank:05d}": RandomState.now()}}


def first_cause(error: CheckpointException) -> BaseException:
    """What the first of the ranks that failed raised."""
    cause: BaseException = error.failures[min(error.failures)][0]
    return cause


def _aliases(module: torch.nn.Module) -> dict[str, str]:
    """The further names of tied weights, each with the first."""
    first: dict[int, str] = {}
    aliases: dict[str, str] = {}
    for long_name, parameter in module.named_parameters(remove_duplicate=False):
        name = _plain(long_name)
        if first.setdefault(id(parameter), name) != name:
            aliases[name] = first[id(parameter)]
    return aliases


def _plain(name: str) -> str:
    """A name as state dicts have it."""
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def _renamed(model: State, optim: State, rename: Callable[[str], str]) -> tuple[State, State]:
    groups = [group | {"params": [rename(name) for name in group["params"]]} for group in optim["param_groups"]]
    moments = {rename(name): state for name, state in optim["state"].items()}
    return {rename(name): tensor for name, tensor in model.items()}, {"state": moments, "param_groups": groups}


def _on_rank_zero(
    action: Callable[[], object], folder: Folder, group: dist.ProcessGroup | None, what_fails: str = "written"
) -> None:
    """Every rank learns whether rank 0 failed, so that none waits for it in the next collective."""
    failure: list[Exception | None] = [None]
    if dist.get_rank() == 0:
        try:
            action()
        except OSError as error:
            failure = [OSError(str(error))]
        except Exception as error:
            failure = [RuntimeError(f"{type(error).__name__}: {error}")]
    dist.broadcast_object_list(failure, src=0, group=group)
    if failure[0] is not None:
        raise _storage_error(folder, what_fails, failure[0]) from failure[0]


def _storage_error(folder: Folder, what_fails: str, cause: object) -> TrainingError:
    return TrainingError(f"--storage_path: checkpoint {folder} cannot be {what_fails}: {cause}")
