import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import training.feed
from training.data import Dataset, RowsInMemory
from training.feed import AHEAD, Feed
from training.packing import Words, document, pack

CPU = torch.device("cpu")
SEQ_LEN = 4


@dataclass
class Reading:
    """What a test does while a batch is read, told its number from 1 on."""

    meanwhile: Callable[[int], None] = lambda number: None
    number: int = 0


class WatchedRows(RowsInMemory):
    reading: Reading

    def read(self, indices: NDArray[np.int64]) -> Words:
        self.reading.number += 1
        self.reading.meanwhile(self.reading.number)
        return super().read(indices)


def watched(reading: Reading) -> Dataset:
    kind = type("Rows", (WatchedRows,), {"reading": reading})
    words = pack([document([row] * SEQ_LEN) for row in range(50)], SEQ_LEN, 0)
    return Dataset(kind(words), RowsInMemory(words), SEQ_LEN, 3, False, "watched")


def feed(dataset: Dataset, **changes: Any) -> Feed:
    told = {"consumed": 0, "steps": 6, "micro_steps": 2, "rank": 1, "world_size": 3, "rows": 2, "device": CPU} | changes
    return Feed(dataset, **told)


class Clock:
    """Stands until it is moved; `asked` is called when the loop asks for the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.asked: Callable[[], None] = lambda: None
        monkeypatch.setattr(training.feed, "time", self)

    def perf_counter(self) -> float:
        now = self.now
        self.asked()
        return now


def test_batches_come_in_the_order_of_steps_and_micro_steps_from_where_the_run_stands() -> None:
    dataset = watched(Reading())
    with feed(dataset, consumed=24) as batches:
        for step in range(6):
            for micro_step in range(2):
                expected = dataset.train_batch(24 + step * 12, micro_step, 1, 3, 2)
                assert torch.equal(batches.next().input_ids, expected.input_ids)


def test_only_the_time_the_loop_waits_for_input_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch takes five seconds to read: the first when the loop has asked for it, the next while it computes."""
    clock, asked, computing = Clock(monkeypatch), threading.Event(), threading.Event()
    clock.asked = asked.set
    slow, read = AHEAD + 2, threading.Semaphore(0)

    def slowly(number: int) -> None:
        (asked if number == 1 else computing).wait()
        if number <= slow:
            clock.now += 5.0
            read.release()

    with feed(watched(Reading(slowly))) as batches:
        batches.next()
        assert batches.waited_s == 5.0
        computing.set()
        for _ in range(slow):
            read.acquire()
        for _ in range(slow - 1):
            batches.next()
        assert batches.waited_s == 5.0


def test_what_reading_raises_is_raised_in_the_loop_at_its_batch() -> None:
    def fails(number: int) -> None:
        if number == 3:
            raise OSError("the disk is gone")

    with feed(watched(Reading(fails))) as batches:
        batches.next()
        batches.next()
        with pytest.raises(OSError, match="the disk is gone"):
            batches.next()


def test_it_reads_no_further_ahead_than_it_may_and_ends_when_closed() -> None:
    reading = Reading()
    batches = feed(watched(reading), steps=1000)
    batches.next()
    time.sleep(0.3)
    assert reading.number <= AHEAD + 2
    batches.close()
    assert not batches._thread.is_alive()
