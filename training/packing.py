"""Documents into sequences of one length, with hardly a place left empty; numpy only.

A sequence is stored as seq_len + 1 words of 32 bits: token ids with two flags. A word is predicted from the one before
it where TARGET says so, and START begins what attention may not look back across. So one array says it all: what the
model reads, what it predicts, and where documents lie.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

START, TARGET = np.uint32(1 << 31), np.uint32(1 << 30)
TOKEN = np.uint32((1 << 30) - 1)
NOT_PREDICTED = -100
"""The label that torch's cross-entropy ignores."""

Words = NDArray[np.uint32]


def document(ids: Sequence[int], learnt: Sequence[bool] | None = None) -> Words:
    """`learnt` tells which tokens are predicted, all by default; the first never is, for nothing stands before it."""
    words = np.array(ids, dtype=np.uint32)
    words[slice(None) if learnt is None else np.array(learnt, dtype=bool)] |= TARGET
    if len(words):
        words[0] = (words[0] & TOKEN) | START
    return words


def pieces(words: Words, seq_len: int) -> list[Words]:
    """A document cut into what fits a sequence. No prediction is lost: a full piece has its next token as one more."""
    cut = [_piece(words[start : start + seq_len + 1]) for start in range(0, len(words), seq_len)]
    return [piece for piece in cut if (piece & TARGET).any()]


def _piece(words: Words) -> Words:
    piece = words.copy()
    piece[0] = (piece[0] & TOKEN) | START
    return piece


def best_fit(sizes: Sequence[int], capacity: int) -> list[list[int]]:
    """Which sizes share a row of `capacity`: the largest first, each into the fullest row that still takes it.

    Best-fit decreasing, as https://arxiv.org/abs/2404.10830 does for documents: no document that fits is ever cut.
    """
    rows: list[list[int]] = []
    spaces: list[int] = []  # that some row has left, ascending
    rows_with: dict[int, list[int]] = {}
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        size = sizes[index]
        at = bisect_left(spaces, size)
        if at == len(spaces):
            rows.append([])
            row, space = len(rows) - 1, capacity
        else:
            space = spaces[at]
            row = rows_with[space].pop()
            if not rows_with[space]:
                del rows_with[space], spaces[at]
        rows[row].append(index)
        left = space - size
        if left > 0:
            if left not in rows_with:
                insort(spaces, left)
                rows_with[left] = []
            rows_with[left].append(row)
    return rows


def pack(parts: Sequence[Words], seq_len: int, pad: int) -> Words:
    """(rows, seq_len + 1) words. Places that no piece takes hold `pad`, as a document of their own."""
    sizes = [min(len(part), seq_len) for part in parts]
    shared = best_fit(sizes, seq_len)
    rows = np.full((len(shared), seq_len + 1), pad, dtype=np.uint32)
    for row, members in zip(rows, shared, strict=True):
        at = 0
        for index in members:
            row[at : at + len(parts[index])] = parts[index]
            at += sizes[index]
        if at < seq_len:
            row[at] |= START
    return rows


@dataclass(frozen=True)
class Decoded:
    """What a model is given, from (rows, seq_len + 1) words."""

    tokens: NDArray[np.int64]
    """(rows, seq_len)"""
    labels: NDArray[np.int64]
    """(rows, seq_len); NOT_PREDICTED where nothing is learnt."""
    positions: NDArray[np.int64]
    """(rows, seq_len); each document counts from 0."""
    documents: NDArray[np.int32]
    """(rows, seq_len); the number of the document within its row."""
    bounds: NDArray[np.int32]
    """(documents + 1,) Where documents begin in all rows one after another, and where the last one ends."""


def decode(words: Words) -> Decoded:
    tokens = (words & TOKEN).astype(np.int64)
    labels = np.where(words[:, 1:] & TARGET, tokens[:, 1:], NOT_PREDICTED)
    starts = (words[:, :-1] & START) != 0
    starts[:, 0] = True
    place = np.arange(starts.shape[1])
    began = np.maximum.accumulate(np.where(starts, place, 0), axis=1)
    bounds = np.append(np.flatnonzero(starts), starts.size).astype(np.int32)
    documents = np.cumsum(starts, axis=1, dtype=np.int32)
    return Decoded(tokens[:, :-1], labels, place - began, documents, bounds)


def empty_rows(rows: int, seq_len: int, pad: int) -> Words:
    """Rows that predict nothing and so count for nothing."""
    return np.full((rows, seq_len + 1), pad, dtype=np.uint32)
