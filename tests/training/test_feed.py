import threading
import time
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from training.data import Dataset, RowsInMemory
from training.feed import AHEAD, Feed
from training.packing import Words, document, pack

CPU = torch.device("cpu")
SEQ_LEN = 4


class SlowRows(RowsInMemory):
    """Takes `seconds` for each read, as storage does, and can fail at one."""

    seconds = 0.0
    fails_at = -1
    reads = 0

    def read(self, indices: NDArray[np.int64]) -> Words:
        type(self).reads += 1
        if self.reads == self.fails_at:
            raise OSError("the disk is gone")
        time.sleep(self.seconds)
        return super().read(indices)


def slow(seconds: float = 0.0, fails_at: int = -1) -> Dataset:
    kind = type("Rows", (SlowRows,), {"seconds": seconds, "fails_at": fails_at, "reads": 0})
    words = pack([document([row] * SEQ_LEN) for row in range(50)], SEQ_LEN, 0)
    return Dataset(kind(words), RowsInMemory(words), SEQ_LEN, 3, False, "slow")


def feed(dataset: Dataset, **changes: Any) -> Feed:
    told = {"consumed": 0, "steps": 6, "micro_steps": 2, "rank": 1, "world_size": 3, "rows": 2, "device": CPU} | changes
    return Feed(dataset, **told)


def test_batches_come_in_the_order_of_steps_and_micro_steps_from_where_the_run_stands() -> None:
    dataset = slow()
    with feed(dataset, consumed=24) as batches:
        for step in range(6):
            for micro_step in range(2):
                expected = dataset.train_batch(24 + step * 12, micro_step, 1, 3, 2)
                assert torch.equal(batches.next().input_ids, expected.input_ids)


def test_a_slow_reader_costs_nothing_where_the_step_takes_longer() -> None:
    with feed(slow(seconds=0.02)) as batches:
        batches.next()
        first = batches.waited_s
        for _ in range(8):
            time.sleep(0.05)
            batches.next()
    assert first > 0.01, "the first batch has to be waited for"
    assert batches.waited_s - first < 0.02


def test_the_time_the_loop_waits_for_input_is_counted() -> None:
    with feed(slow(seconds=0.05)) as batches:
        for _ in range(5):
            batches.next()
    assert batches.waited_s > 0.2


def test_what_reading_raises_is_raised_in_the_loop_at_its_batch() -> None:
    with feed(slow(fails_at=3)) as batches:
        batches.next()
        batches.next()
        with pytest.raises(OSError, match="the disk is gone"):
            batches.next()


def test_it_reads_no_further_ahead_than_it_may_and_ends_when_closed() -> None:
    dataset = slow()
    before = threading.active_count()
    batches = feed(dataset, steps=1000)
    batches.next()
    time.sleep(0.3)
    assert type(dataset.train).reads <= AHEAD + 2  # type: ignore[attr-defined]
    batches.close()
    assert threading.active_count() == before
