"""Where a rank's random number generators stand, so that what they give does not depend on an interruption."""

import hashlib
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class RandomState:
    """Of Python, NumPy, torch, and the rank's own GPU where it has one."""

    python: Any
    numpy: Any
    torch: torch.Tensor
    cuda: torch.Tensor | None

    @classmethod
    def now(cls) -> "RandomState":
        return cls(
            random.getstate(),
            np.random.get_state(),
            torch.get_rng_state(),
            torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        )

    def restore(self) -> None:
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.set_rng_state(self.torch)
        if self.cuda is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(self.cuda)

    def reseed(self, rank: int, world_size: int) -> None:
        """For a number of ranks other than the saved one: streams that follow from this state, a different one a rank.

        Streams of one number of ranks cannot be gone on with by another; these at least repeat nothing, and are the
        same whenever the same checkpoint is taken up by as many ranks.
        """
        digest = hashlib.sha256(f"{rank}/{world_size}".encode())
        for state in (self.torch, self.cuda):
            digest.update(b"" if state is None else state.numpy().tobytes())
        _seed(digest.digest())


def seed_rank(seed: int, rank: int) -> None:
    """Streams that are the rank's own from the run's beginning, and the same in the next run of that seed."""
    _seed(hashlib.sha256(f"{seed}/{rank}".encode()).digest())


def _seed(digest: bytes) -> None:
    seed = int.from_bytes(digest[:8], "big") >> 1
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
