"""Batches of token sequences: a function of the seed and of how many samples were trained on, and of nothing else.

Samples are numbered from the run's first; each epoch of them is a permutation of all training sequences, another one
each time. All ranks of all micro-steps of a step take neighbouring numbers. So no sequence is seen twice in an epoch,
none is left out, a batch may reach from one epoch into the next, and a run goes on at its exact sample, on another
number of ranks too.
"""

import hashlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from training.config import TrainConfig
from training.data_settings import DOCUMENTS, PYDOC, RANDOM, DataSettings
from training.errors import TrainingError
from training.packing import START, TARGET, TOKEN, Words, decode, empty_rows
from training.storage import Folder
from training.token_files import TokenFile, TokenRows, on_this_node, read_manifest
from training.tokenise import HELD_OUT, TRAIN, rows_in_memory
from training.tokenizer import load_tokenizer

_TRAIN, _HELD_OUT = 0, 1
_OF_DOCUMENTS = ("position_ids", "documents", "document_bounds")


@dataclass(frozen=True)
class Batch:
    input_ids: torch.Tensor
    """(rows, seq_len) int64."""
    labels: torch.Tensor
    """(rows, seq_len) int64: the token after each, -100 where none is to be predicted."""
    position_ids: torch.Tensor | None
    """(rows, seq_len) int64, from 0 in each document; None where attention is plainly causal."""
    documents: torch.Tensor | None
    """(rows, seq_len) int32: the number of each token's document in its row; None as above."""
    document_bounds: torch.Tensor | None
    """(documents + 1,) int32: where documents begin in all rows one after another, and the end of the last."""
    predicted: int
    """Labels that count. On the CPU, so that no one has to ask a GPU for it."""

    def to(self, device: torch.device) -> "Batch":
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> "Batch":
        return self._each(torch.Tensor.pin_memory)

    def tensors(self) -> dict[str, torch.Tensor]:
        """By name, those there are."""
        named = {name: getattr(self, name) for name in ("input_ids", "labels", *_OF_DOCUMENTS)}
        return {name: tensor for name, tensor in named.items() if tensor is not None}

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Batch":
        changed: dict[str, Any] = {name: change(tensor) for name, tensor in self.tensors().items()}
        return replace(self, **changed)


class Rows(Protocol):
    """Sequences of seq_len + 1 words (packing.py), by number."""

    def __len__(self) -> int: ...

    def read(self, indices: NDArray[np.int64]) -> Words: ...


@dataclass(frozen=True)
class RowsInMemory:
    words: Words

    def __len__(self) -> int:
        return len(self.words)

    def read(self, indices: NDArray[np.int64]) -> Words:
        return self.words[indices]


@dataclass(frozen=True)
class RandomRows:
    """Random token ids: measures the machinery, teaches nothing."""

    vocab_size: int
    seq_len: int
    key: tuple[int, ...]
    rows: int = 1 << 20

    def __len__(self) -> int:
        return self.rows

    def read(self, indices: NDArray[np.int64]) -> Words:
        words = np.stack([self._row(int(index)) for index in indices]) | TARGET
        words[:, 0] = (words[:, 0] & TOKEN) | START
        return words

    def _row(self, index: int) -> Words:
        return np.random.default_rng([*self.key, index]).integers(0, self.vocab_size, self.seq_len + 1, dtype=np.uint32)


@dataclass(frozen=True)
class Dataset:
    train: Rows
    held_out: Rows
    seq_len: int
    seed: int
    by_document: bool
    """Whether batches tell their documents apart."""
    key: str
    """Of the training sequences and nothing else; a position among others means nothing."""
    pad: int = 0
    dropped: int = 0
    """Documents that came into no sequence, for they had nothing to predict in one."""
    cut: int = 0
    """Conversations that lost a part of their answers."""

    def position(self, consumed: int) -> dict[str, Any]:
        """What a checkpoint keeps so that a run goes on at the sample after `consumed`."""
        return {"samples": consumed, "key": self.key, "seed": self.seed}

    def consumed(self, position: Mapping[str, Any] | None) -> int:
        """From what position() gave; 0 for one in other data or another order."""
        known = position is not None and (position["key"], position["seed"]) == (self.key, self.seed)
        return int(position["samples"]) if position is not None and known else 0

    def described(self) -> dict[str, Any]:
        """For the run's record."""
        return {
            "key": self.key,
            "sequences": len(self.train),
            "heldOut": len(self.held_out),
            "dropped": self.dropped,
            "cut": self.cut,
        }

    def train_batch(self, consumed: int, micro_step: int, rank: int, world_size: int, rows: int) -> Batch:
        """This rank's `rows` sequences; `consumed` samples were trained on before this step, by all ranks together."""
        first = consumed + (micro_step * world_size + rank) * rows
        return self._batch(self.train.read(self.sequences(first, rows)))

    def sequences(self, first: int, count: int) -> NDArray[np.int64]:
        """Which training sequences the samples of these numbers are."""
        length = len(self.train)
        numbers = np.arange(first, first + count)
        found = np.empty(count, dtype=np.int64)
        for epoch in range(first // length, (first + count - 1) // length + 1):
            here = numbers // length == epoch
            found[here] = _epoch_order(self.seed, epoch, length)[numbers[here] % length]
        return found

    def held_out_batches(self, rank: int, world_size: int, rows: int, batches: int) -> list[Batch]:
        """This rank's share of the first `batches` x `rows` x ranks held-out sequences, the same whatever the seed.

        Every rank gets as many batches, all of `rows` sequences: collectives demand it. Where the sequences do not
        suffice, empty ones take their place, which predict nothing.
        """
        count = min(len(self.held_out), batches * rows * world_size)
        chosen = _epoch_order(0, 0, len(self.held_out))[:count]
        rounds = -(-count // (rows * world_size))
        mine = self.held_out.read(chosen[rank::world_size].astype(np.int64))
        full = np.concatenate([mine, empty_rows(rounds * rows - len(mine), self.seq_len, self.pad)])
        return [self._batch(full[start : start + rows]) for start in range(0, rounds * rows, rows)]

    def _batch(self, words: Words) -> Batch:
        decoded = decode(words)
        return Batch(
            input_ids=torch.from_numpy(decoded.tokens),
            labels=torch.from_numpy(decoded.labels),
            position_ids=torch.from_numpy(decoded.positions) if self.by_document else None,
            documents=torch.from_numpy(decoded.documents) if self.by_document else None,
            document_bounds=torch.from_numpy(decoded.bounds) if self.by_document else None,
            predicted=int((decoded.labels >= 0).sum()),
        )


@lru_cache(maxsize=4)
def _epoch_order(seed: int, epoch: int, length: int) -> NDArray[np.uint32]:
    return np.random.default_rng([seed, _TRAIN, epoch]).permutation(np.arange(length, dtype=np.uint32))


def open_dataset(config: TrainConfig, vocab_size: int, prepared: Folder | None = None) -> Dataset:
    """`prepared` is what prepare() gave the driver; None for the data sets that each rank makes for itself.

    Raises TrainingError where the data set cannot be opened, or its tokens are none of the model's.
    """
    settings = DataSettings.of(config)
    train: Rows
    held_out: Rows
    pad, largest, dropped, cut = 0, 0, 0, 0
    if settings.dataset == RANDOM:
        train = RandomRows(vocab_size, settings.seq_len, (settings.seed, _TRAIN))
        held_out = RandomRows(vocab_size, settings.seq_len, (settings.seed, _HELD_OUT))
        key = f"{RANDOM}-{settings.seq_len}-{vocab_size}"
    elif settings.dataset == PYDOC:
        tokenizer, texts = load_tokenizer(settings.model_id), english_texts()
        made = rows_in_memory(texts, tokenizer, settings)
        if not all(map(len, made.values())):
            raise TrainingError(
                f"--validation_share {settings.validation_share:g}: leaves a part of --dataset {PYDOC} empty"
            )
        train, held_out = RowsInMemory(made[TRAIN]), RowsInMemory(made[HELD_OUT])
        # Not Python's version, of which the texts are: most versions have the same.
        contents = hashlib.sha256("\0".join([tokenizer.digest(), *texts]).encode()).hexdigest()[:16]
        key = f"{PYDOC}-{settings.seq_len}-{settings.validation_share:g}-{contents}"
        pad, largest = tokenizer.pad, max(int((half & TOKEN).max()) for half in made.values())
    else:
        assert prepared is not None, "prepare() comes first"
        manifest = read_manifest(prepared)
        if manifest is None:
            raise TrainingError(f"--dataset {settings.dataset}: node {socket.gethostname()} does not see {prepared}")
        files = {half: [TokenFile(*file) for file in manifest[half]["files"]] for half in (TRAIN, HELD_OUT)}
        directory = on_this_node(prepared)
        train, held_out = (TokenRows(directory, files[half], settings.seq_len) for half in (TRAIN, HELD_OUT))
        # Not the folder's name: files that were touched, copied or moved make another folder of the same sequences.
        largest, key = (
            max(manifest[half]["largest_token"] for half in (TRAIN, HELD_OUT)),
            manifest[TRAIN]["digest"][:16],
        )
        dropped, cut = (manifest[TRAIN][name] + manifest[HELD_OUT][name] for name in ("dropped", "cut"))
    if largest >= vocab_size:
        raise TrainingError(
            f"--model_id {settings.model_id}: its tokenizer makes tokens up to {largest} and the model knows "
            f"{vocab_size}; try --dataset {RANDOM}"
        )
    by_document = settings.attention == DOCUMENTS and settings.dataset != RANDOM
    return Dataset(train, held_out, settings.seq_len, settings.seed, by_document, key, pad, dropped, cut)


def english_texts() -> list[str]:
    """The help texts every CPython carries, about 465,000 characters."""
    from pydoc_data.topics import topics

    return [topics[name] for name in sorted(topics)]
