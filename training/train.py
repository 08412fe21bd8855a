"""FSDP training of a causal language model on Ray.

    python -m training.train --storage_path /shared/runs --run_id first --worker_resource GPU

starts the driver (driver.py), which lets Ray Train run train_func below once per rank, on every node at once.
"""

from dataclasses import replace

from training.config import TrainConfig
from training.failure import final_unless_outage
from training.job_kind import RankTask
from training.nccl_lines import NcclLines, handed_back
from training.worker_setup import raise_if_unprepared


def train_func(task: RankTask[TrainConfig]) -> None:
    """What each rank runs. Ray Train has made the process group: gloo between CPUs, NCCL between GPUs."""
    import torch.distributed as dist

    raise_if_unprepared()
    with final_unless_outage(), handed_back(dist.get_rank(), dist.get_backend()) as lines:
        train(task, lines)


def train(task: RankTask[TrainConfig], lines: NcclLines) -> None:
    # Imported here and not above: the driver and Ray's controller load this file as well, and need none of it.
    import gc

    import torch.distributed as dist

    from training import attempt, efa_devices, evidence, learner
    from training.evaluation import evaluate
    from training.export import export_from_ranks, take_over_from_ranks
    from training.measure import Stopwatch, write_result, write_steps
    from training.steps import delete_old, train_steps

    gc.freeze()  # a million objects of the imports, which live as long as the process does
    config, stopwatch = task.config, Stopwatch()
    now = attempt.begin(task, lines)
    if config.export_to is not None:
        take_over_from_ranks(config.export_to, config.owner)

    # Every rank has the same model in shapes, keeps its own slice of it, and only then reads weights.
    learns = learner.build(config, now.device, now.node_of_rank, prepared=task.prepared, say=now.say)
    now.say(f"{config.model_id}: {learns.parameters:,} parameters over {now.world_size} {dist.get_backend()} ranks")
    progress, newest = learner.resume(learns, now)
    now.testify(resumed_from_step=progress.step)

    def evaluation(name: str) -> dict[str, float]:
        with stopwatch.timing("eval_s"):
            result: dict[str, float] = evaluate(learns.root, learns.dataset, config, now.device)
        now.say(
            f"eval {name}: loss {result['loss']:.4f} perplexity {result['perplexity']:.1f} ({result['tokens']:,} tokens"
            f", {result['token_accuracy']:.1%} predicted right)"
        )
        return result

    progress = replace(progress, eval_before=progress.eval_before or evaluation("before"))
    before_steps = evidence.read_devices(now.testimony["local_rank"])
    trained = train_steps(now, learns, progress, newest, evaluation)
    after_steps = evidence.read_devices(now.testimony["local_rank"])
    lines.settle()  # after a barrier of its own, so that the testimony counts all that NCCL says of the steps
    # Now and not at the end: where evaluation, export or report meet an outage, the next attempt trains nothing.
    if now.rank == 0:
        write_steps(now.run.attempt(now.number), figures=trained.figures, timings=trained.timings)
    steps = config.steps - progress.step
    now.testify(
        trained_steps=steps,
        **efa_devices.testimony(before_steps, after_steps),
        **evidence.must_move(
            learns.root,
            learns.optimizer,
            learns.options,
            now.node_of_rank,
            steps=steps,
            micro_batches=config.accumulate,
        ),
        **evidence.so_far(now.device, lines),
    )
    eval_after = evaluation("after")
    if config.export_to is not None and trained.saved is not None:
        with stopwatch.timing("export_s"):
            export_from_ranks(trained.saved, config.export_to, config.export_dtype, config.owner)
        now.say(f"exported {trained.saved.name} to {config.export_to} ({stopwatch.seconds['export_s']:.1f} s)")
    dist.barrier()
    now.testify(**evidence.so_far(now.device, lines))
    if now.rank == 0:
        write_result(
            now.run.folder,
            losses=trained.losses,
            tokens_per_step=config.tokens_per_step(now.world_size),
            evaluated={"before": progress.eval_before, "after": eval_after},
            saved=trained.saved,
            timings=stopwatch.seconds,
            further={"data": learns.dataset.described(), "model": learns.model},
        )
        delete_old(now)


if __name__ == "__main__":
    import sys

    from training.driver import main
    from training.train_job import TRAINING

    sys.exit(main(TRAINING, sys.argv[1:]))
