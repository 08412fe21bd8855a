"""The steps of an attempt, and what is told, saved and evaluated between them."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from training import evidence
from training.attempt import Attempt
from training.checkpoint_files import Progress, prune
from training.checkpointer import Checkpointer, Failed
from training.config import TrainConfig
from training.errors import first_line
from training.feed import Feed
from training.learner import Learner
from training.live_metrics import LiveMetrics
from training.metrics import RunMetrics, Scale
from training.model_files import model_files, tokenizer_of
from training.profile import StepProfiler
from training.step_clock import INPUT
from training.storage import Folder, open_folder
from training.tensorboard import EventFile
from training.told import Told


@dataclass(frozen=True)
class Trained:
    losses: list[tuple[int, float]]
    saved: Folder | None
    """The newest checkpoint."""
    figures: dict[str, Any]
    """Of speed, checkpoints and profiled steps, for the run's record."""
    timings: dict[str, float]


def train_steps(
    attempt: Attempt[TrainConfig],
    learner: Learner,
    progress: Progress,
    saved: Folder | None,
    evaluation: Callable[[str], object],
) -> Trained:
    """From the step after `progress` to the last one; `saved` is the run's newest checkpoint so far.

    Called by every rank; raises TrainingError on all of them.
    """
    config, clock = attempt.config, learner.clock
    told = Told(
        config.steps,
        _metrics(attempt, learner, progress.step + 1),
        attempt.say,
        list(progress.losses),
        saved,
        # While one step's figures are read, a GPU works on the next.
        ahead=1 if attempt.device.type == "cuda" else 0,
    )
    samples = learner.dataset.consumed(progress.data)
    feed = Feed(
        learner.dataset,
        consumed=samples,
        steps=config.steps - progress.step,
        micro_steps=config.accumulate,
        rank=attempt.rank,
        world_size=attempt.world_size,
        rows=config.batch_size,
        device=attempt.device,
    )
    checkpoints = attempt.run.checkpoints
    saver = Checkpointer(
        checkpoints,
        learner.root,
        learner.optimizer,
        mode=config.checkpoint_mode,
        keep=config.keep_checkpoints,
        protected=_protected(config),
        last_step=config.steps,
        files=model_files(learner.root, tokenizer_of(config.model_id)) if attempt.rank == 0 else {},
        told=lambda saved: attempt.say(
            f"checkpoint step {saved.step} -> {checkpoints.name}/{saved.folder.name} ({saved.written_s:.1f} s)"
        ),
        failed=lambda failed: attempt.say(failed_line(failed, config)),
    )
    profiler = StepProfiler(config.profile_steps, attempt.run.folder / "profile", attempt.rank, attempt.device)
    clock.restart()
    with saver, feed:
        for step in range(progress.step + 1, config.steps + 1):
            if step == config.kill_at_step:
                told.settle()
                told.checkpoint(saver.finish())  # so that it is known from which one the next attempt goes on
                _die_if_asked(attempt, step)
            rate = config.schedule.at(step)
            learner.optimizer.set_learning_rate(rate)
            evaluates = config.eval_every > 0 and step % config.eval_every == 0 and step < config.steps
            saves = config.checkpoint_every > 0 and (step % config.checkpoint_every == 0 or step == config.steps)
            profiled = step in config.profile_steps
            wait = evaluates or saves or profiled or step == config.steps
            with profiler.around(step):
                with clock.phase(INPUT):
                    batches = [feed.next().tensors() for _ in range(config.accumulate)]
                told.end_step(step, learner.step(batches), rate, wait=wait)
            samples += config.batch_size * config.accumulate * attempt.world_size

            if evaluates:
                evaluation(f"at step {step}")
            if saves:
                data = learner.dataset.position(samples)
                told.checkpoint(saver.save(replace(progress, step=step, losses=told.losses, data=data)))
            if wait:
                clock.restart()  # none of these is a part of the next step, nor is a trace that is written
        told.checkpoint(saver.finish())
    figures = told.metrics.summary() | {"checkpoints": saver.figures(), "profile": profiler.figures()}
    timings = {"train_s": told.metrics.total_s(), "checkpoint_s": saver.exposed_s}
    return Trained(told.losses, told.saved, figures, timings)


def delete_old(attempt: Attempt[TrainConfig]) -> None:
    """Rank 0's, once the run has reported: until then another of its spec may have to go on before the last step."""
    config = attempt.config
    if config.keep_checkpoints == 0:
        return
    try:
        prune(attempt.run.checkpoints, config.keep_checkpoints, _protected(config))
    except OSError as error:  # of a run that is whole
        attempt.say(f"older checkpoints than --keep_checkpoints {config.keep_checkpoints} cannot be deleted: {error}")


def _protected(config: TrainConfig) -> Folder | None:
    return None if config.resume_from is None else open_folder(config.resume_from)


def failed_line(failed: Failed, config: TrainConfig) -> str:
    """What is said of a checkpoint at the moment when it fails, and what follows from it."""
    later = min((failed.step // config.checkpoint_every + 1) * config.checkpoint_every, config.steps)
    if failed.ends or later <= failed.step:
        follows = "this attempt ends"
    else:
        follows = f"training goes on; step {later} makes the next, and if that fails too, this attempt ends"
    return f"at the checkpoint of step {failed.step}: {first_line(failed.error)}; {follows}"


def _metrics(attempt: Attempt[TrainConfig], learner: Learner, first_step: int) -> RunMetrics:
    config, tells = attempt.config, attempt.rank == 0
    scale = Scale(
        tokens_per_step=config.tokens_per_step(attempt.world_size),
        ranks=attempt.world_size,
        flops_per_token=learner.flops_per_token,
        peak_flops=learner.peak_flops,
    )
    return RunMetrics(
        learner.clock,
        scale,
        partial(evidence.peak_memory_bytes, attempt.device),
        EventFile(attempt.run.folder / "tensorboard", first_step) if tells else None,
        LiveMetrics.of_ray(run=config.run_id, model=config.model_id) if tells else None,
        slowed=config.profile_steps,
    )


def _die_if_asked(attempt: Attempt[TrainConfig], step: int) -> None:
    rank = attempt.rank
    if rank == attempt.world_size - 1 and attempt.run.claim_kill():
        print(f"[train] rank {rank} kills its own process at the start of step {step} (--kill_at_step)", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
