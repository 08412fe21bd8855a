"""What an attempt tells of its steps as soon as they are known: to people, TensorBoard, the record and Ray."""

from collections.abc import Callable
from dataclasses import dataclass, field

import ray.train

from training.checkpointer import Saved
from training.metrics import RunMetrics
from training.step import PendingFigures
from training.storage import Folder


@dataclass
class Told:
    steps: int
    """Of the whole run."""
    metrics: RunMetrics
    say: Callable[[str], None]
    losses: list[tuple[int, float]]
    """Of the run so far; those of further steps are added."""
    saved: Folder | None
    """The newest checkpoint."""
    ahead: int
    """So many of the newest steps stay untold, so that the device has work while the one before is told."""
    _queued: list[tuple[PendingFigures, float]] = field(default_factory=list, init=False)

    def end_step(self, step: int, pending: PendingFigures, rate: float, *, wait: bool) -> None:
        """All of the step is queued. `wait` for its end where something follows that is no step.

        Raises TrainingError where a loss is not finite.
        """
        self.metrics.clock.end_step(step)
        self._queued.append((pending, rate))
        self._tell(0 if wait else self.ahead)

    def settle(self) -> None:
        """Wait for every step so far."""
        self._tell(0)

    def _tell(self, left: int) -> None:
        while len(self._queued) > left:
            pending, rate = self._queued.pop(0)
            figures = pending.read()
            times = self.metrics.tell(
                {"train/loss": figures.loss, "train/gradient_norm": figures.gradient_norm, "train/learning_rate": rate}
            )
            self.losses.append((times.step, figures.loss))
            self.say(
                f"step {times.step}/{self.steps} loss {figures.loss:.4f} "
                f"tokens/s {self.metrics.scale.tokens_per_second(times.total):.0f} "
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
        storage = ray.train.get_context().get_storage().storage_filesystem
        ray.train.report(
            {"step": done.step},
            checkpoint=ray.train.Checkpoint(done.folder.ray_path, storage),
            checkpoint_upload_mode=ray.train.CheckpointUploadMode.NO_UPLOAD,
        )
