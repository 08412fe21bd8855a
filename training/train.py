"""FSDP training of a causal language model on Ray.

    python -m training.train --storage_path /shared/runs --run_id first --worker_resource GPU

starts the driver (driver.py), which lets Ray Train run train_func below once per rank, on every node at once.
"""

import os
import signal
import time
from typing import Any

from training.config import TrainConfig
from training.job_kind import RankTask
from training.nccl_lines import NcclLines, handed_back
from training.run_directory import RunDirectory
from training.worker_setup import raise_if_unprepared


def train_func(loop: RankTask[TrainConfig]) -> None:
    """What each rank runs. Ray Train has made the process group: gloo between CPUs, NCCL between GPUs."""
    import torch.distributed as dist

    raise_if_unprepared()
    with handed_back(dist.get_rank(), dist.get_backend()) as lines:
        train(loop, lines)


def train(loop: RankTask[TrainConfig], lines: NcclLines) -> None:
    # Imported here and not above: the driver and Ray's controller load this file as well, and need none of it.
    import gc

    import ray.train
    import torch.distributed as dist

    from training import checkpoint, efa_devices, evidence
    from training.checkpoint_files import Progress, newest_complete, require_complete, step_folder
    from training.data import open_dataset, train_batch
    from training.evaluation import evaluate
    from training.measure import Stopwatch, write_result
    from training.model import load_model
    from training.rank_device import rank_device
    from training.sharding import make_optimizer, shard
    from training.step import train_step
    from training.storage import storage_errors

    worker_group_s = time.time() - loop.started_at
    gc.freeze()  # a million objects of the imports, which live as long as the process does
    config = loop.config
    rank, world_size = dist.get_rank(), dist.get_world_size()
    device = rank_device(config.process_group)

    def say(line: str) -> None:
        if rank == 0:
            print(f"[train] {line}\n", end="", flush=True)  # one write, so that no line of NCCL's comes between

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
        lines=lines,
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
    before_steps = evidence.read_devices(testimony["local_rank"])

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

    testimony |= efa_devices.testimony(before_steps, evidence.read_devices(testimony["local_rank"]))
    testimony |= evidence.must_move(module, optimizer, device, nodes, len(stopwatch.steps))
    eval_after = evaluation("after")
    dist.barrier()
    lines.finish()  # after the last collective, so that the testimony counts all of NCCL's lines
    testimony |= evidence.so_far(device, lines)
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


if __name__ == "__main__":
    import sys

    from training.driver import main
    from training.train_job import TRAINING

    sys.exit(main(TRAINING, sys.argv[1:]))
