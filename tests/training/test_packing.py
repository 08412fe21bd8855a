from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.packing import NOT_PREDICTED, TOKEN, Words, best_fit, decode, document, empty_rows, pack, pieces

PAD = 9999


def packed(lengths: list[int], seq_len: int) -> Words:
    """Documents whose tokens are all different, so that a pair of them tells where it was taken."""
    starts = np.cumsum([0, *lengths[:-1]])
    words = [document(range(start, start + length)) for start, length in zip(starts, lengths, strict=True)]
    return pack([piece for one in words for piece in pieces(one, seq_len)], seq_len, PAD)


lengths_of_documents = st.lists(st.integers(1, 70), min_size=1, max_size=40)


@given(lengths=lengths_of_documents, seq_len=st.integers(2, 32))
def test_every_token_is_predicted_once_from_its_own_predecessor_and_from_no_other_document(
    lengths: list[int], seq_len: int
) -> None:
    told = decode(packed(lengths, seq_len))
    pairs = Counter(
        (int(before), int(after))
        for before, after in zip(told.tokens.flat, told.labels.flat, strict=True)
        if after != NOT_PREDICTED
    )
    expected: list[tuple[int, int]] = []
    at = 0
    for length in lengths:
        expected += [(token, token + 1) for token in range(at, at + length - 1)]
        at += length
    assert pairs == Counter(expected)


@given(lengths=lengths_of_documents, seq_len=st.integers(2, 32))
def test_positions_and_bounds_restart_with_each_document_and_each_row(lengths: list[int], seq_len: int) -> None:
    told = decode(packed(lengths, seq_len))
    assert told.bounds[0] == 0 and told.bounds[-1] == told.tokens.size
    assert set(range(0, told.tokens.size, seq_len)) <= set(told.bounds.tolist()), "no document spans two rows"
    flat, tokens = told.positions.ravel(), told.tokens.ravel()
    for begin, end in zip(told.bounds[:-1], told.bounds[1:], strict=True):
        assert flat[begin:end].tolist() == list(range(end - begin))
        inside = tokens[begin:end]
        assert (np.diff(inside) == 1).all() or (inside == PAD).all(), "what attends to each other is one document"


@given(sizes=st.lists(st.integers(1, 50), max_size=200))
def test_best_fit_puts_each_size_in_one_row_and_overfills_none(sizes: list[int]) -> None:
    rows = best_fit(sizes, 50)
    assert sorted(index for row in rows for index in row) == list(range(len(sizes)))
    loads = [sum(sizes[index] for index in row) for row in rows]
    assert all(load <= 50 for load in loads)
    assert sum(load <= 25 for load in loads) <= 1, "two half-empty rows would have been one"


def test_best_fit_takes_the_fullest_row_that_still_has_room() -> None:
    assert best_fit([7, 5, 3, 2], 10) == [[0, 2], [1, 3]]


def test_documents_of_natural_lengths_leave_under_half_a_percent_of_places_empty() -> None:
    lengths = np.random.default_rng(3).lognormal(5.5, 1.2, 5000).astype(int) + 2  # median 245, some of 10,000
    rows = packed(lengths.tolist(), 1024)
    filled = (decode(rows).tokens != PAD).mean()
    assert filled > 0.995, f"{filled:.4f}"
    one_each = sum(-(-length // 1024) for length in lengths)
    assert len(rows) < 0.6 * one_each, "packing must be worth its name"


def test_a_document_longer_than_a_sequence_goes_on_in_the_next_without_losing_a_prediction() -> None:
    rows = packed([10], 4)
    assert decode(rows).tokens[:2].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert decode(rows).labels[:2].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert decode(rows).labels[2].tolist() == [9, NOT_PREDICTED, NOT_PREDICTED, NOT_PREDICTED]


def test_only_what_is_to_be_learnt_is_a_label() -> None:
    words = document([5, 6, 7, 8], [True, False, True, True])
    told = decode(pack([words], 4, PAD))
    assert told.tokens.tolist() == [[5, 6, 7, 8]]
    assert told.labels.tolist() == [[NOT_PREDICTED, 7, 8, NOT_PREDICTED]]


def test_a_piece_of_which_nothing_is_learnt_takes_no_place() -> None:
    question_first = document(range(10), [False] * 8 + [True] * 2)
    assert [(piece & TOKEN).tolist() for piece in pieces(question_first, 4)] == [[4, 5, 6, 7, 8], [8, 9]]
    assert pieces(document([]), 4) == []


def test_empty_rows_predict_nothing() -> None:
    told = decode(empty_rows(2, 5, PAD))
    assert told.tokens.shape == (2, 5) and (told.labels == NOT_PREDICTED).all()


@pytest.mark.parametrize("largest", [0, 151_935, (1 << 30) - 1])
def test_token_ids_of_any_vocabulary_survive(largest: int) -> None:
    assert decode(pack([document([1, largest, 2])], 4, PAD)).tokens[0, 1] == largest
