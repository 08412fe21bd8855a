"""Token batches: which tokens a rank sees follows from seed, step and row alone, so a resumed run sees the same."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from training.config import TrainConfig
from training.errors import TrainingError

HELD_OUT_SHARE = 0.1
_TRAIN, _HELD_OUT = 0, 1


class Dataset(Protocol):
    """Rows of seq_len + 1 token ids: a model reads the first seq_len and predicts the last seq_len."""

    def train_row(self, step: int, row: int) -> torch.Tensor: ...

    def held_out_row(self, row: int) -> torch.Tensor: ...

    @property
    def held_out_rows(self) -> int: ...


@dataclass(frozen=True)
class TextDataset:
    """`tokens` is one long text; its last tenth is held out and no training row reaches into it."""

    tokens: torch.Tensor
    seq_len: int
    seed: int

    @property
    def split_at(self) -> int:
        return int(len(self.tokens) * (1 - HELD_OUT_SHARE))

    @property
    def held_out_rows(self) -> int:
        return (len(self.tokens) - self.split_at) // (self.seq_len + 1)

    def train_row(self, step: int, row: int) -> torch.Tensor:
        last_start = self.split_at - (self.seq_len + 1)
        start = int(np.random.default_rng([self.seed, _TRAIN, step, row]).integers(0, last_start + 1))
        return self.tokens[start : start + self.seq_len + 1]

    def held_out_row(self, row: int) -> torch.Tensor:
        start = self.split_at + row * (self.seq_len + 1)
        return self.tokens[start : start + self.seq_len + 1]


@dataclass(frozen=True)
class RandomDataset:
    """Random token ids: measures the machinery, teaches nothing."""

    vocab_size: int
    seq_len: int
    seed: int
    held_out_rows: int = 1024

    def train_row(self, step: int, row: int) -> torch.Tensor:
        return self._row([self.seed, _TRAIN, step, row])

    def held_out_row(self, row: int) -> torch.Tensor:
        return self._row([self.seed, _HELD_OUT, row])

    def _row(self, key: list[int]) -> torch.Tensor:
        return torch.from_numpy(np.random.default_rng(key).integers(0, self.vocab_size, self.seq_len + 1))


def open_dataset(config: TrainConfig, encode: Callable[[str], torch.Tensor], vocab_size: int) -> Dataset:
    """Raises TrainingError where the text is too short for one row."""
    if config.dataset == "random":
        return RandomDataset(vocab_size, config.seq_len, config.seed)
    dataset = TextDataset(encode(english_text()), config.seq_len, config.seed)
    if dataset.held_out_rows < 1:
        held_out = len(dataset.tokens) - dataset.split_at
        raise TrainingError(
            f"--seq_len {config.seq_len}: the held-out part of --dataset {config.dataset} has {held_out:,} tokens, "
            "too few for one sequence; choose a smaller --seq_len"
        )
    return dataset


def english_text() -> str:
    """The help texts every CPython carries, about 465,000 characters."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))


def train_batch(dataset: Dataset, step: int, rank: int, batch_size: int) -> torch.Tensor:
    """(batch_size, seq_len + 1) token ids of this rank at this step."""
    rows = range(rank * batch_size, (rank + 1) * batch_size)
    return torch.stack([dataset.train_row(step, row) for row in rows])


def held_out_batches(dataset: Dataset, rank: int, world_size: int, batch_size: int, batches: int) -> list[torch.Tensor]:
    """This rank's share, at most `batches` of up to batch_size rows; every rank gets the same number of rows.

    A text with fewer held-out rows than ranks gives each rank one row, reused in turn.
    """
    per_rank = max(1, min(batches * batch_size, dataset.held_out_rows // world_size))
    rows = [dataset.held_out_row((index * world_size + rank) % dataset.held_out_rows) for index in range(per_rank)]
    return [torch.stack(rows[start : start + batch_size]) for start in range(0, per_rank, batch_size)]
