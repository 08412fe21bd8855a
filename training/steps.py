"""The steps of an attempt, and what is told, saved and evaluated between them."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ray.train

from training import evidence
from training.attempt import Attempt
from training.checkpoint_files import Progress
from training.checkpointer import Checkpointer, Saved
from training.config import TrainConfig
from training.feed import Feed
from training.learner import Learner
from training.live_metrics import LiveMetrics
from training.metrics import RunMetrics, Scale
from training.model_files import model_files, tokenizer_of
from training.profile import StepProfiler
from training.step import PendingFigures
from training.step_clock import INPUT
from training.storage import Folder, open_folder
from training.tensorboard import EventFile


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
    told = _Told(attempt, learner, list(progress.losses), saved)
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
        protected=None if config.resume_from is None else open_folder(config.resume_from),
        files=model_files(learner.root, tokenizer_of(config.model_id)) if attempt.rank == 0 else {},
        told=lambda saved: attempt.say(
            f"checkpoint step {saved.step} -> {checkpoints.name}/{saved.folder.name} ({saved.written_s:.1f} s)"
        ),
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


class _Told:
    """What the attempt tells of its steps: to people, TensorBoard, the record and Ray."""

    def __init__(
        self,
        attempt: Attempt[TrainConfig],
        learner: Learner,
        losses: list[tuple[int, float]],
        saved: Folder | None,
    ) -> None:
        config, first = attempt.config, losses[-1][0] + 1 if losses else 1
        scale = Scale(
            tokens_per_step=config.tokens_per_step(attempt.world_size),
            ranks=attempt.world_size,
            flops_per_token=learner.flops_per_token,
            peak_flops=learner.peak_flops,
        )
        events = EventFile(attempt.run.folder / "tensorboard", first) if attempt.rank == 0 else None
        peak = partial(evidence.peak_memory_bytes, attempt.device)
        live = LiveMetrics.of_ray(run=config.run_id, model=config.model_id) if attempt.rank == 0 else None
        self.metrics = RunMetrics(learner.clock, scale, peak, events, live, slowed=config.profile_steps)
        self.losses = losses
        self.saved = saved
        self._attempt = attempt
        self._storage = ray.train.get_context().get_storage().storage_filesystem
        # While one step's figures are read, a GPU works on the next.
        self._ahead = 1 if attempt.device.type == "cuda" else 0
        self._queued: list[tuple[int, PendingFigures, float]] = []

    def end_step(self, step: int, pending: PendingFigures, rate: float, *, wait: bool) -> None:
        """On a GPU the newest step goes on, unless something follows that waits for it: its time is the step's then.

        Raises TrainingError where a loss is not finite.
        """
        self._queued.append((step, pending, rate))
        left = 0 if wait else self._ahead
        for _, earlier, _ in self._queued[: len(self._queued) - left]:
            earlier.read()
        self.metrics.end_step(step)
        self._tell(left)

    def settle(self) -> None:
        """Wait for every step so far."""
        self._tell(0)

    def _tell(self, left: int) -> None:
        config, scale = self._attempt.config, self.metrics.scale
        while len(self._queued) > left:
            step, pending, rate = self._queued.pop(0)
            figures = pending.read()
            self.losses.append((step, figures.loss))
            self.metrics.tell(
                step,
                {"train/loss": figures.loss, "train/gradient_norm": figures.gradient_norm, "train/learning_rate": rate},
            )
            self._attempt.say(
                f"step {step}/{config.steps} loss {figures.loss:.4f} "
                f"tokens/s {scale.tokens_per_second(self.metrics.clock.last_total):.0f} "
                f"grad norm {figures.gradient_norm:.2f}"
            )

    def checkpoint(self, done: Saved | None) -> None:
        """Every rank is told of the same one, so every rank reports it."""
        if done is None:
            return
        self.saved = done.folder
        self.metrics.publish()
        # Ray keeps it in the run's Result; NO_UPLOAD because it lies in the run's storage already, which Ray takes
        # from the file system's being the very same: two of one bucket differ by their temporary credentials.
        ray.train.report(
            {"step": done.step},
            checkpoint=ray.train.Checkpoint(done.folder.ray_path, self._storage),
            checkpoint_upload_mode=ray.train.CheckpointUploadMode.NO_UPLOAD,
        )


def _die_if_asked(attempt: Attempt[TrainConfig], step: int) -> None:
    rank = attempt.rank
    if rank == attempt.world_size - 1 and attempt.run.claim_kill():
        print(f"[train] rank {rank} kills its own process at the start of step {step} (--kill_at_step)", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
