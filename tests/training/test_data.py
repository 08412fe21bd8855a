import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.training.arguments import config
from training.data import RandomDataset, TextDataset, held_out_batches, open_dataset, train_batch
from training.errors import TrainingError
from training.model import BYTE_VOCABULARY, encode_bytes


def numbered(length: int = 5000, seq_len: int = 16, seed: int = 7) -> TextDataset:
    """A text whose tokens are their own positions, so that a row tells where it was taken."""
    return TextDataset(torch.arange(length), seq_len, seed)


@given(step=st.integers(1, 10_000), row=st.integers(0, 63), length=st.integers(400, 5000), seed=st.integers(0, 99))
def test_no_training_row_reaches_into_the_held_out_text(step: int, row: int, length: int, seed: int) -> None:
    dataset = numbered(length=length, seed=seed)
    assert int(dataset.train_row(step, row).max()) < dataset.split_at


def test_held_out_rows_are_all_of_the_last_tenth_and_overlap_nowhere() -> None:
    dataset = numbered()
    positions = torch.cat([dataset.held_out_row(row) for row in range(dataset.held_out_rows)])
    assert int(positions.min()) == dataset.split_at == 4500
    assert len(positions.unique()) == len(positions)


def test_a_batch_depends_on_nothing_but_seed_step_and_rank() -> None:
    first, second = numbered(), numbered()
    for step in (3, 1, 2):  # another order, and rows asked for in between, change nothing
        first.train_row(step, 40)
    for step in (1, 2, 3):
        assert torch.equal(train_batch(first, step, 2, 4), train_batch(second, step, 2, 4))
    assert not torch.equal(train_batch(first, 1, 0, 4), train_batch(first, 2, 0, 4)), "each step has its own text"
    assert not torch.equal(train_batch(first, 1, 0, 4), train_batch(first, 1, 1, 4)), "each rank has its own text"
    assert not torch.equal(train_batch(first, 1, 0, 4), train_batch(numbered(seed=8), 1, 0, 4))


@pytest.mark.parametrize("dataset", [numbered(), RandomDataset(vocab_size=100, seq_len=16, seed=7)])
def test_the_global_batch_is_the_same_however_many_ranks_share_it(dataset: TextDataset | RandomDataset) -> None:
    by_two = torch.cat([train_batch(dataset, 5, rank, 4) for rank in range(2)])
    by_four = torch.cat([train_batch(dataset, 5, rank, 2) for rank in range(4)])
    assert torch.equal(by_two, by_four)


def test_ranks_share_the_held_out_rows_evenly_and_without_overlap() -> None:
    dataset = numbered()
    shares = [torch.cat(held_out_batches(dataset, rank, 4, 3, 2)) for rank in range(4)]
    assert {share.shape for share in shares} == {(6, 17)}, "unequal shares would leave a rank waiting in a collective"
    assert len(torch.cat(shares).unique()) == 4 * 6 * 17


def test_a_short_held_out_text_gives_each_rank_a_row_all_the_same() -> None:
    dataset = numbered(length=400)  # 40 held-out tokens: two rows for four ranks
    assert [len(held_out_batches(dataset, rank, 4, 2, 8)) for rank in range(4)] == [1, 1, 1, 1]


def test_the_default_text_is_english_of_this_python() -> None:
    dataset = open_dataset(config(), encode_bytes, BYTE_VOCABULARY)
    assert isinstance(dataset, TextDataset)
    assert len(dataset.tokens) > 300_000
    assert b" the " in bytes(dataset.tokens.tolist())


def test_a_text_too_short_for_one_sequence_is_refused_by_the_sequence_length() -> None:
    with pytest.raises(TrainingError, match=r"--seq_len 100000: .*--dataset pydoc"):
        open_dataset(config(seq_len=100_000), encode_bytes, BYTE_VOCABULARY)


def test_random_tokens_lie_within_the_vocabulary() -> None:
    dataset = open_dataset(config(dataset="random"), encode_bytes, 11)
    row = dataset.train_row(1, 0)
    assert set(row.tolist()) <= set(range(11))
    assert not torch.equal(dataset.held_out_row(0), row)
