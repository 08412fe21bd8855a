"""What the tests of sharding and checkpoints run in several processes at once."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from tests.training.arguments import config
from training import checkpoint
from training.checkpoint_files import Progress
from training.data import Dataset, open_dataset, train_batch
from training.evaluation import evaluate
from training.model import load_model
from training.sharding import make_optimizer, shard
from training.step import train_step

GLOBAL_ROWS = 8
STEPS, SAVED_AT = 6, 3
CPU = torch.device("cpu")


def run_ranks(world_size: int, function: Callable[..., None], folder: Path, *arguments: Any) -> None:
    """Run function(rank, world_size, folder, *arguments) in world_size processes joined by gloo."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "store").unlink(missing_ok=True)
    multiprocessing.spawn(_rank, (world_size, function, folder, arguments), nprocs=world_size)


def _rank(rank: int, world_size: int, function: Callable[..., None], folder: Path, arguments: tuple[Any, ...]) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world_size)
    try:
        function(rank, world_size, folder, *arguments)
    finally:
        dist.destroy_process_group()
    # Not through the interpreter's end: after a save that failed, torch sometimes aborts there (a thread of its own is
    # still joinable), when all that this rank has to tell is on disk already.
    os._exit(0)


def build(*, sharded: bool) -> tuple[torch.nn.Module, torch.optim.Optimizer, Dataset]:
    settings = config(seq_len=32)
    model = load_model(settings)
    if sharded:
        shard(model.module, CPU)
    optimizer = make_optimizer(model.module, settings.lr, CPU)
    return model.module, optimizer, open_dataset(settings, model.encode, model.vocab_size)


def train(
    module: torch.nn.Module, optimizer: torch.optim.Optimizer, dataset: Dataset, steps: range
) -> list[tuple[int, float, float]]:
    """(step, loss, gradient norm), each over GLOBAL_ROWS rows shared by all ranks."""
    rank, rows = dist.get_rank(), GLOBAL_ROWS // dist.get_world_size()
    told = []
    for step in steps:
        figures = train_step(module, optimizer, train_batch(dataset, step, rank, rows))
        told.append((step, figures.loss, figures.gradient_norm))
    return told


def straight_and_resumed(rank: int, world_size: int, folder: Path, sharded: bool) -> None:
    """Train to the end with a checkpoint on the way, then again from the checkpoint in a new model."""
    module, optimizer, dataset = build(sharded=sharded)
    shards = _shard_sizes(module)
    losses = train(module, optimizer, dataset, range(1, SAVED_AT + 1))
    if sharded:
        progress = Progress(step=SAVED_AT, losses=[(step, loss) for step, loss, _ in losses], eval_before=None)
        checkpoint.save(folder / "checkpoint", module, optimizer, progress)
    losses += train(module, optimizer, dataset, range(SAVED_AT + 1, STEPS + 1))
    evaluated = evaluate(module, dataset, config(seq_len=32, batch_size=8 // world_size), CPU)
    resumed = resume(folder) if sharded else []
    if rank == 0:
        told = {"losses": losses, "resumed": resumed, "eval": evaluated, "shards": shards}
        (folder / "told.json").write_text(json.dumps(told))


def resume(saved_in: Path) -> list[tuple[int, float]]:
    module, optimizer, dataset = build(sharded=True)
    progress = checkpoint.load(saved_in / "checkpoint", module, optimizer)
    further = train(module, optimizer, dataset, range(progress.step + 1, STEPS + 1))
    return progress.losses + [(step, loss) for step, loss, _ in further]


def resumed_elsewhere(rank: int, world_size: int, folder: Path, saved_in: Path) -> None:
    losses = resume(saved_in)
    if rank == 0:
        (folder / "told.json").write_text(json.dumps({"losses": losses}))


def saved_on_full_storage(rank: int, world_size: int, folder: Path, limit: int) -> None:
    """The operating system refuses files above `limit` bytes, as it refuses any on a full disk."""
    import resource

    module, optimizer, _ = build(sharded=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        checkpoint.save(folder / "checkpoint", module, optimizer, Progress(step=1, losses=[], eval_before=None))
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
    else:
        told = "saved"
    (folder / f"told-{rank}").write_text(told)


def _shard_sizes(module: torch.nn.Module) -> dict[str, int]:
    """Elements of all parameters, and of those this rank keeps."""
    whole = sum(parameter.numel() for parameter in module.parameters())
    local = sum(getattr(parameter, "_local_tensor", parameter).numel() for parameter in module.parameters())
    return {"whole": whole, "local": local}


def told(folder: Path) -> Any:
    return json.loads((folder / "told.json").read_text())
