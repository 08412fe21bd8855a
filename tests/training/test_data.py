from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.training.data_files import settings
from tests.training.small_model import save_small_model
from training.data import Batch, Dataset, RandomRows, RowsInMemory, english_texts, open_dataset
from training.data_settings import CAUSAL, PYDOC, RANDOM
from training.errors import TrainingError
from training.model_source import BYTE_VOCABULARY
from training.packing import NOT_PREDICTED, START, TOKEN, document, pack
from training.split import fingerprint
from training.tokenise import HELD_OUT, TRAIN, rows_in_memory
from training.tokenizer import ByteTokenizer

SEQ_LEN = 8


def numbered(rows: int = 40, held_out: int = 20, seed: int = 7) -> Dataset:
    """Sequences whose tokens are their own number, so that a batch tells which they are."""
    words = [pack([document([row] * SEQ_LEN) for row in range(count)], SEQ_LEN, 0) for count in (rows, held_out)]
    return Dataset(RowsInMemory(words[0]), RowsInMemory(words[1]), SEQ_LEN, seed, False, "numbered")


def seen(batch: Batch) -> list[int]:
    return [int(token) for token in batch.input_ids[:, 0]]


def step(dataset: Dataset, consumed: int, ranks: int, rows: int, micro_steps: int = 1) -> list[int]:
    """What all ranks see of one step, in the order of samples."""
    return [
        number
        for micro_step in range(micro_steps)
        for rank in range(ranks)
        for number in seen(dataset.train_batch(consumed, micro_step, rank, ranks, rows))
    ]


@given(rows=st.integers(1, 50), per_step=st.integers(1, 16), seed=st.integers(0, 99))
def test_every_sequence_is_seen_exactly_once_in_each_epoch(rows: int, per_step: int, seed: int) -> None:
    dataset = numbered(rows, seed=seed)
    order = [number for start in range(0, 3 * rows, per_step) for number in step(dataset, start, 1, per_step)]
    for epoch in range(3):
        assert sorted(order[epoch * rows : (epoch + 1) * rows]) == list(range(rows)), f"epoch {epoch}"


def test_epochs_and_seeds_differ_in_their_order() -> None:
    dataset = numbered()
    first, second = step(dataset, 0, 1, 40), step(dataset, 40, 1, 40)
    assert first != second and first != list(range(40))
    assert step(numbered(seed=8), 0, 1, 40) != first


@given(consumed=st.integers(0, 10**12), split=st.sampled_from([(1, 12, 1), (2, 6, 1), (4, 3, 1), (2, 2, 3), (3, 4, 1)]))
def test_a_step_sees_the_same_samples_however_many_ranks_and_micro_steps_share_it(
    consumed: int, split: tuple[int, int, int]
) -> None:
    assert step(numbered(), consumed, *split) == step(numbered(), consumed, 1, 12)


def test_a_run_resumed_on_another_number_of_ranks_goes_on_at_its_exact_sample() -> None:
    dataset = numbered(rows=97)
    undisturbed = step(dataset, 0, 1, 300)
    told: list[int] = []
    for ranks, rows, micro_steps, steps in ((4, 3, 1, 5), (2, 3, 2, 4), (3, 5, 1, 6)):
        for _ in range(steps):
            told += step(dataset, len(told), ranks, rows, micro_steps)
    assert told == undisturbed[: len(told)], "in between, the global batch was 12, 12 and 15"


def test_a_batch_depends_on_nothing_that_was_asked_for_before() -> None:
    first, second = numbered(), numbered()
    for consumed in (1000, 3, 80):
        first.train_batch(consumed, 0, 0, 1, 8)
    assert torch.equal(first.train_batch(16, 0, 1, 2, 4).input_ids, second.train_batch(16, 0, 1, 2, 4).input_ids)


@pytest.mark.parametrize("held_out", [1, 2, 7, 20, 23, 24, 25])
@pytest.mark.parametrize(("ranks", "rows"), [(4, 3), (1, 5), (3, 1)])
def test_ranks_share_the_held_out_rows_once_each_in_batches_of_one_shape(held_out: int, ranks: int, rows: int) -> None:
    dataset = numbered(held_out=held_out)
    shares = [dataset.held_out_batches(rank, ranks, rows, 100) for rank in range(ranks)]
    assert len({len(share) for share in shares}) == 1, "a rank with more batches would wait for ever in a collective"
    batches = [batch for share in shares for batch in share]
    assert {batch.input_ids.shape for batch in batches} == {(rows, SEQ_LEN)}
    found = [
        int(tokens[0])
        for batch in batches
        for tokens, labels in zip(batch.input_ids, batch.labels, strict=True)
        if (labels != NOT_PREDICTED).any()
    ]
    assert sorted(found) == list(range(held_out))
    assert sum(batch.predicted for batch in batches) == held_out * (SEQ_LEN - 1)


def test_fewer_evaluation_batches_are_a_fixed_part_of_the_held_out_rows_whatever_the_seed() -> None:
    parts = [
        [
            sorted(
                number
                for rank in range(ranks)
                for batch in data.held_out_batches(rank, ranks, rows, 2)
                for number in seen(batch)
            )
        ]
        for data in (numbered(seed=1), numbered(seed=2))
        for ranks, rows in ((1, 4), (2, 2), (4, 1))
    ]
    assert parts == [parts[0]] * 6
    assert parts[0] != [list(range(8))], "the first of a file may be all of one kind"


def test_labels_are_the_next_tokens_and_are_counted() -> None:
    words = pack([document([1, 2, 3]), document([4, 5], [True, False])], 6, 0)
    dataset = Dataset(RowsInMemory(words), RowsInMemory(words), 6, 0, True, "two")
    batch = dataset.train_batch(0, 0, 0, 1, 1)
    assert batch.labels.tolist() == [[2, 3, -100, -100, -100, -100]]
    assert batch.predicted == 2
    assert batch.position_ids is not None and batch.position_ids.tolist() == [[0, 1, 2, 0, 1, 0]]
    assert batch.document_bounds is not None and batch.document_bounds.tolist() == [0, 3, 5, 6]
    assert batch.input_ids.dtype == batch.labels.dtype == batch.position_ids.dtype == torch.int64


def open_default(**changes: Any) -> Dataset:
    return open_dataset(settings(**{"dataset": PYDOC} | changes), BYTE_VOCABULARY)  # type: ignore[arg-type]


def test_the_default_text_is_english_of_this_python_and_fills_its_sequences() -> None:
    dataset = open_default(seq_len=256)
    text = bytes(token & 255 for token in dataset.train_batch(0, 0, 0, 1, 64).input_ids.ravel().tolist())
    assert text.count(b" the ") > 100
    words = rows_in_memory(english_texts(), ByteTokenizer(), settings(PYDOC, seq_len=256))
    tokens = sum(len(text.encode()) + 1 for text in english_texts())
    rows = {half: len(found) for half, found in words.items()}
    assert tokens / (sum(rows.values()) * 256) > 0.99
    assert 0.05 < rows[HELD_OUT] / sum(rows.values()) < 0.2


def test_no_help_text_of_python_is_in_both_halves_though_some_are_there_twice() -> None:
    texts = english_texts()
    assert len({fingerprint(text) for text in texts}) < len(texts), "else this shows nothing"
    longest = max(len(text.encode()) for text in texts) + 1
    halves = rows_in_memory(texts, ByteTokenizer(), settings(PYDOC, seq_len=longest))
    found = {
        half: {
            bytes(tokens.astype(np.uint8))
            for tokens in np.split((rows & TOKEN).ravel(), np.flatnonzero(rows & START))
            if len(tokens) and tokens[0] < 256
        }
        for half, rows in halves.items()
    }
    assert len(found[TRAIN]) + len(found[HELD_OUT]) == len({fingerprint(text) for text in texts})
    assert not found[TRAIN] & found[HELD_OUT]


def test_attention_is_a_setting() -> None:
    assert open_default().train_batch(0, 0, 0, 1, 2).position_ids is not None
    assert open_default(attention=CAUSAL).train_batch(0, 0, 0, 1, 2).position_ids is None


def test_random_tokens_lie_within_the_vocabulary_and_are_never_two_alike() -> None:
    dataset = open_dataset(settings(RANDOM), 11)  # type: ignore[arg-type]
    batch = dataset.train_batch(0, 0, 0, 1, 4)
    assert set(batch.input_ids.unique().tolist()) == set(range(11))
    assert batch.predicted == batch.labels.numel(), "every place predicts, as in the seed's loop"
    assert batch.position_ids is None
    rows = [
        *batch.input_ids,
        *dataset.train_batch(4, 0, 0, 1, 4).input_ids,
        *dataset.held_out_batches(0, 1, 4, 1)[0].input_ids,
    ]
    assert len({tuple(row.tolist()) for row in rows}) == 12
    again = open_dataset(settings(RANDOM), 11).train_batch(0, 0, 0, 1, 4)  # type: ignore[arg-type]
    assert torch.equal(batch.input_ids, again.input_ids)


def test_a_vocabulary_too_small_is_refused() -> None:
    with pytest.raises(TrainingError, match="makes tokens up to 258 and the model knows 200"):
        open_dataset(settings(PYDOC), 200)  # type: ignore[arg-type]


def test_random_rows_of_a_key_do_not_change() -> None:
    rows = RandomRows(100, 4, (7, 0))
    alone = rows.read(np.array([5]))
    assert np.array_equal(rows.read(np.array([3, 5]))[1:], alone)


def test_a_share_that_leaves_a_part_empty_is_refused_by_its_name() -> None:
    with pytest.raises(TrainingError, match=r"--validation_share 1e-06: leaves a part of --dataset pydoc empty"):
        open_default(validation_share=1e-6)


def test_a_position_counts_in_the_same_data_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And in all that is the same, so that a run goes on where it stood."""
    dataset = open_default()
    same = open_default(validation_share=0.1, attention=CAUSAL)
    assert dataset.consumed(same.position(8)) == 8
    save_small_model(tmp_path)
    others = [open_default(seq_len=32), open_default(validation_share=0.2), open_default(model_id=str(tmp_path))]
    monkeypatch.setattr("training.data.english_texts", lambda: [*english_texts(), "of another Python"])
    others.append(open_default())
    assert len({dataset.key, *(other.key for other in others)}) == 5


def test_random_tokens_are_known_by_what_decides_them() -> None:
    keys = [
        open_dataset(settings(RANDOM, **changes), vocabulary).key  # type: ignore[arg-type]
        for vocabulary, changes in ((11, {}), (11, {"validation_share": 0.3}), (12, {}), (11, {"seq_len": 32}))
    ]
    assert keys[0] == keys[1] and len(set(keys)) == 3
