"""How fast a model learns at each step. No torch here: the driver checks it."""

import math
from dataclasses import dataclass

from training.errors import TrainingError


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Learning rate: a linear rise over the first steps, then half a cosine down to `floor` x `peak`."""

    peak: float
    steps: int
    warm_up_steps: int = 0
    floor: float = 1.0
    """The share of `peak` that is left at the last step; 1 keeps the rate where it is."""

    def check(self) -> None:
        """Raises TrainingError naming the argument and its value."""
        if not 0 <= self.floor <= 1:
            raise TrainingError(f"--lr_floor {self.floor}: must be a share of --lr between 0 and 1")
        if not 0 <= self.warm_up_steps < self.steps:
            raise TrainingError(
                f"--warm_up_steps {self.warm_up_steps}: must be fewer than --steps {self.steps}, and not negative"
            )

    def at(self, step: int) -> float:
        """Of step 1 to `steps`. It follows from the step alone, so a resumed run has nothing to restore."""
        if step <= self.warm_up_steps:
            return self.peak * step / self.warm_up_steps
        decaying = self.steps - self.warm_up_steps
        done = min(1.0, (step - self.warm_up_steps) / decaying)
        return self.peak * (self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * done)))
