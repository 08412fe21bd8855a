"""FSDP training of a causal language model on Ray.

    python -m training.train --storage_path /shared/runs --run_id first --worker_resource GPU

starts the driver (driver.py), which lets Ray Train run train_func below once per rank, on every node at once.
"""

import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from training.config import TrainConfig
from training.run_directory import RunDirectory


@dataclass(frozen=True, kw_only=True)
class TrainLoop:
    """What the driver hands to every rank."""

    config: TrainConfig
    job_environment: tuple[str, ...]
    """Names of the variables the job was given."""
    started_at: float
    """Unix time at which the driver asked for the worker group."""


def train_func(loop: TrainLoop) -> None:
    """What each rank runs. Ray Train has made the process group: gloo between CPUs, NCCL between GPUs."""
    # Imported here and not above: the driver and Ray's controller load this file as well, and need none of it.
    import gc

    import ray.train
    import torch
    import torch.distributed as dist
    from ray.train.torch import get_device

    from training import checkpoint, evidence, worker_setup
    from training.checkpoint_files import Progress, newest_complete, require_complete, step_folder
    from training.data import open_dataset, train_batch
    from training.evaluation import evaluate
    from training.measure import Stopwatch, write_result
    from training.model import load_model
    from training.sharding import make_optimizer, shard
    from training.step import train_step
    from training.storage import storage_errors

    worker_group_s = time.time() - loop.started_at
    worker_setup.raise_if_unprepared()
    gc.freeze()  # a million objects of the imports, which live as long as the process does
    config = loop.config
    rank, world_size = dist.get_rank(), dist.get_world_size()
    device: torch.device = get_device() if config.process_group == "nccl" else torch.device("cpu")
    if device.type == "cpu":
        torch.set_num_threads(threads_per_rank(ray.train.get_context().get_local_world_size()))

    def say(line: str) -> None:
        if rank == 0:
            print(f"[train] {line}", flush=True)

    # One attempt ends where a rank dies; Ray then starts all ranks anew and this function from its top.
    run = RunDirectory.of(config)
    begun: list[Any] = [None, None, None]
    if rank == 0:
        attempt = run.begin_attempt(worker_group_s)
        with storage_errors(run.checkpoints, "cannot be read"):
            begun = [attempt, *newest_complete(run.checkpoints)]
    dist.broadcast_object_list(begun, src=0)  # storage may look older to another node: rank 0 decides
    attempt, newest, passed_over = begun
    run.check_shared(attempt)
    stopwatch = Stopwatch()

    # Every rank builds the same model, keeps its own slice of it, and only then makes the optimizer over the slices.
    model = load_model(config)
    module = model.module
    shard(module, device)
    optimizer = make_optimizer(module, config.lr, device)
    dataset = open_dataset(config, model.encode, model.vocab_size)

    testimony = evidence.testify(
        attempt=attempt,
        device=device,
        job_environment=loop.job_environment,
        requirements=config.pip,
        transport_lines=[],
    )
    nodes: list[int] = [0] * world_size
    dist.all_gather_object(nodes, testimony["node_rank"])
    how = f"{worker_group_s:.1f} s" if attempt == 1 else f"attempt {attempt}"
    say(f"worker group up: {world_size} ranks on {max(nodes) + 1} nodes ({how})")
    parameters = sum(parameter.numel() for parameter in module.parameters())
    say(f"{config.model_id}: {parameters:,} parameters over {world_size} {dist.get_backend()} ranks")

    # Resume from this run's own newest checkpoint, or else from the one the user named.
    progress = Progress(step=0, losses=[], eval_before=None)
    for line in passed_over:
        say(line)
    if newest is not None:
        progress = checkpoint.load(newest, module, optimizer)
        say(f"resumed from step {progress.step} (attempt {attempt})")
    elif config.resume_from is not None:
        loaded = checkpoint.load(require_complete(config.resume_from), module, optimizer)
        # Another run's first evaluation is not this one's.
        progress = Progress(step=loaded.step, losses=loaded.losses, eval_before=None)
        say(f"resumed from step {progress.step} of {config.resume_from} (attempt {attempt})")
    testimony["resumed_from_step"] = progress.step
    evidence.write_testimony(run.attempt(attempt), testimony)

    def evaluation(name: str) -> dict[str, float]:
        with stopwatch.evaluation():
            result: dict[str, float] = evaluate(module, dataset, config, device)
        loss, perplexity, tokens = result["loss"], result["perplexity"], result["tokens"]
        say(f"eval {name}: loss {loss:.4f} perplexity {perplexity:.1f} ({tokens:,} tokens)")
        return result

    eval_before = progress.eval_before or evaluation("before")
    losses = list(progress.losses)
    saved = newest
    storage = ray.train.get_context().get_storage()
    tokens_per_step = config.batch_size * config.seq_len * world_size

    for step in range(progress.step + 1, config.steps + 1):
        if step == config.kill_at_step and rank == world_size - 1 and run.claim_kill():
            print(f"[train] rank {rank} kills its own process at the start of step {step} (--kill_at_step)", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

        with stopwatch.step():
            figures = train_step(module, optimizer, train_batch(dataset, step, rank, config.batch_size).to(device))
        losses.append((step, figures.loss))
        say(
            f"step {step}/{config.steps} loss {figures.loss:.4f} tokens/s {tokens_per_step / stopwatch.steps[-1]:.0f}"
            f" grad norm {figures.gradient_norm:.2f}"
        )

        if config.eval_every and step % config.eval_every == 0 and step < config.steps:
            evaluation(f"at step {step}")

        if config.checkpoint_every and (step % config.checkpoint_every == 0 or step == config.steps):
            folder = step_folder(run.checkpoints, step)
            now = Progress(step=step, losses=losses, eval_before=eval_before)
            with stopwatch.checkpoint():
                checkpoint.save(folder, module, optimizer, now)
            saved = folder
            say(f"checkpoint step {step} -> {run.checkpoints.name}/{folder.name} ({stopwatch.last_checkpoint_s:.1f} s)")
            # Ray keeps it in the run's Result; NO_UPLOAD because it lies in the run's storage already, which Ray takes
            # from the file system's being the very same: two of one bucket differ by their temporary credentials.
            ray.train.report(
                {"step": step, "loss": figures.loss},
                checkpoint=ray.train.Checkpoint(folder.ray_path, storage.storage_filesystem),
                checkpoint_upload_mode=ray.train.CheckpointUploadMode.NO_UPLOAD,
            )

    eval_after = evaluation("after")
    testimony["peak_memory_bytes"] = evidence.peak_memory_bytes(device)
    evidence.write_testimony(run.attempt(attempt), testimony)
    if rank == 0:
        write_result(
            run.folder,
            stopwatch=stopwatch,
            losses=losses,
            tokens_per_step=tokens_per_step,
            eval_before=eval_before,
            eval_after=eval_after,
            saved=saved,
        )
    dist.barrier()


def threads_per_rank(ranks_here: int) -> int:
    """Torch threads that leave no core with two. Ranks of several Ray nodes on one host count together."""
    return max(1, (os.cpu_count() or 1) // ranks_here)


if __name__ == "__main__":
    import sys

    from training.driver import main

    sys.exit(main(sys.argv[1:]))
