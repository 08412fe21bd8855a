"""What the tests of sharding and checkpoints run in several processes at once."""

import json
import os
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from tests.support.cutting_proxy import CuttingProxy
from tests.training.arguments import config
from training import checkpoint, evidence, s3
from training.causal_loss import CausalLoss
from training.checkpoint_files import Progress
from training.data import Dataset, open_dataset
from training.evaluation import evaluate
from training.failure import final_unless_outage
from training.model import load_model
from training.optimizer import ShardedAdamW, decay_groups
from training.sharding import Sharding, shard
from training.shards import ShardWriter
from training.step import TrainStep
from training.storage import Folder, LocalFolder, open_folder

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


def build(*, sharded: bool) -> tuple[CausalLoss, ShardedAdamW, Dataset]:
    settings = config(seq_len=32)
    model = load_model(settings)
    root = CausalLoss(model.module)
    if sharded:
        shard(root, CPU)
    optimizer = ShardedAdamW(decay_groups(root, 0.1, decay_embeddings=False), settings.lr)
    return root, optimizer, open_dataset(settings, model.vocab_size)


def train(root: CausalLoss, optimizer: ShardedAdamW, dataset: Dataset, steps: range) -> list[tuple[int, float, float]]:
    """(step, loss, gradient norm), each over GLOBAL_ROWS rows shared by all ranks."""
    rank, world_size, step_function = dist.get_rank(), dist.get_world_size(), TrainStep(root, optimizer)
    told = []
    for step in steps:
        batch = dataset.train_batch((step - 1) * GLOBAL_ROWS, 0, rank, world_size, GLOBAL_ROWS // world_size)
        figures = step_function([batch.tensors()]).read()
        told.append((step, figures.loss, figures.gradient_norm))
    return told


def straight_and_resumed(rank: int, world_size: int, folder: Path, sharded: bool) -> None:
    """Train to the end with a checkpoint on the way, then again from the checkpoint in a new model."""
    module, optimizer, dataset = build(sharded=sharded)
    shards = _shard_sizes(module)
    losses = train(module, optimizer, dataset, range(1, SAVED_AT + 1))
    if sharded:
        progress = Progress(step=SAVED_AT, losses=[(step, loss) for step, loss, _ in losses], eval_before=None)
        checkpoint.save(LocalFolder(folder / "checkpoint"), module, optimizer, progress)
    losses += train(module, optimizer, dataset, range(SAVED_AT + 1, STEPS + 1))
    evaluated = evaluate(module, dataset, config(seq_len=32, batch_size=8 // world_size), CPU)
    resumed = resume(LocalFolder(folder / "checkpoint")) if sharded else []
    if rank == 0:
        told = {"losses": losses, "resumed": resumed, "eval": evaluated, "shards": shards}
        (folder / "told.json").write_text(json.dumps(told))


def resume(saved: Folder) -> list[tuple[int, float]]:
    module, optimizer, dataset = build(sharded=True)
    progress = checkpoint.load(saved, module, optimizer)
    further = train(module, optimizer, dataset, range(progress.step + 1, STEPS + 1))
    return progress.losses + [(step, loss) for step, loss, _ in further]


def resumed_elsewhere(rank: int, world_size: int, folder: Path, saved_in: Path) -> None:
    losses = resume(LocalFolder(saved_in / "checkpoint"))
    if rank == 0:
        (folder / "told.json").write_text(json.dumps({"losses": losses}))


def saved_on_full_storage(rank: int, world_size: int, folder: Path, limit: int) -> None:
    """The operating system refuses files above `limit` bytes, as it refuses any on a full disk."""
    import resource

    module, optimizer, _ = build(sharded=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        progress = Progress(step=1, losses=[], eval_before=None)
        with final_unless_outage():
            checkpoint.save(LocalFolder(folder / "checkpoint"), module, optimizer, progress)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
    else:
        told = "saved"
    (folder / f"told-{rank}").write_text(told)


def saved_in_both(rank: int, world_size: int, folder: Path, location: str) -> None:
    """One checkpoint in a directory and in a bucket; then go on from each, and from neither."""
    local, remote = LocalFolder(folder / "checkpoint"), open_folder(location)
    module, optimizer, dataset = build(sharded=True)
    losses = [(step, loss) for step, loss, _ in train(module, optimizer, dataset, range(1, SAVED_AT + 1))]
    progress = Progress(step=SAVED_AT, losses=losses, eval_before=None)
    for place in (local, remote):
        checkpoint.save(place, module, optimizer, progress)
    straight = [(step, loss) for step, loss, _ in train(module, optimizer, dataset, range(SAVED_AT + 1, STEPS + 1))]
    resumed = {"from_directory": resume(local), "from_s3": resume(remote)}
    if rank == 0:
        (folder / "told.json").write_text(json.dumps({"straight": losses + straight, **resumed}))


def saved_through_an_outage(rank: int, world_size: int, folder: Path, location: str, port: int) -> None:
    """S3 falls silent between rank 0's first objects of the second checkpoint and the shards."""
    proxy = CuttingProxy(port) if rank == 0 else None
    shared = [proxy.port if proxy else 0]
    dist.broadcast_object_list(shared, src=0)
    os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{shared[0]}"
    silent = socket.create_server(("127.0.0.1", 0))
    module, optimizer, _ = build(sharded=True)
    checkpoints = open_folder(location)
    checkpoint.save(checkpoints / "step-000001", module, optimizer, Progress(step=1, losses=[], eval_before=None))

    def fall_silent(into: Folder) -> ShardWriter:
        # Only now: a server that is slow because the machine is busy is not what this is about.
        s3.REQUEST_S, s3.ATTEMPTS = 1.0, 1
        s3.forget()
        if proxy is not None:
            proxy.target = silent.getsockname()[1]
            proxy.cut()
        return ShardWriter(into)

    try:
        with final_unless_outage(), patch.object(checkpoint, "ShardWriter", fall_silent):
            progress = Progress(step=2, losses=[], eval_before=None)
            checkpoint.save(checkpoints / "step-000002", module, optimizer, progress)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
    else:
        told = "saved"
    (folder / f"told-{rank}").write_text(told)
    dist.barrier()  # rank 0 holds the proxy


@dataclass(frozen=True)
class TrafficCase:
    options: dict[str, Any]
    nodes: tuple[int, ...]
    micro_batches: int = 1


def counted_traffic(rank: int, world_size: int, folder: Path, model: Path, steps: int, case: TrafficCase) -> None:
    """What FSDP hands to the process group in steps that follow an evaluation, and what is said it must move."""
    settings = config(model_id=model, dataset="random", seq_len=8, batch_size=1, eval_batches=1)
    loaded, options = load_model(settings), Sharding(**case.options)
    root = CausalLoss(loaded.module)
    shard(root, CPU, options, case.nodes)
    optimizer = ShardedAdamW(decay_groups(root, 0.1, decay_embeddings=False), settings.lr)
    step_function = TrainStep(root, optimizer, options)
    dataset = open_dataset(settings, loaded.vocab_size)
    evaluate(root, dataset, settings, CPU)
    counted = Counter[str]()

    def counting(name: str, operation: Callable[..., Any], size: Callable[..., int]) -> Any:
        def count(*arguments: Any, **more: Any) -> Any:
            counted[name] += size(*arguments, **more)
            return operation(*arguments, **more)

        return patch.object(dist, operation.__name__, count)

    with (
        counting("gathered", dist.all_gather_single, lambda output_tensor, *_, **__: output_tensor.nbytes),
        counting("reduced", dist.reduce_scatter_single, lambda *_, input, **__: input.nbytes),
        counting("summed", dist.all_reduce, lambda tensor, *_, **__: 0 if tensor.numel() == 3 else tensor.nbytes),
    ):
        for step in range(steps):
            step_function(
                [dataset.train_batch(step, micro, rank, world_size, 1).tensors() for micro in range(case.micro_batches)]
            ).read()
    must_move = evidence.must_move(root, optimizer, options, case.nodes, steps=steps, micro_batches=case.micro_batches)[
        "must_move"
    ]
    (folder / f"told-{rank}").write_text(json.dumps({"gathered": 0, "reduced": 0, "summed": 0, **counted, **must_move}))


def _shard_sizes(module: torch.nn.Module) -> dict[str, int]:
    """Elements of all parameters, and of those this rank keeps."""
    whole = sum(parameter.numel() for parameter in module.parameters())
    local = sum(getattr(parameter, "_local_tensor", parameter).numel() for parameter in module.parameters())
    return {"whole": whole, "local": local}


def told(folder: Path) -> Any:
    return json.loads((folder / "told.json").read_text())
