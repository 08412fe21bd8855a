"""One size between real processes: its figures, and that no wrong element goes uncounted."""

import json
import math
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.training.ranks import CPU, run_ranks, told
from training import all_reduce
from training.all_reduce import PERIOD, fill, measure, wrong_elements

RANKS = 3


def measured(rank: int, world_size: int, folder: Path) -> None:
    """On rank 1 a spoilt copy of what `fill` writes, the second time."""
    good = measure(40_000, iterations=3, warm_up=1, device=CPU)
    if rank == 1:
        all_reduce.fill = lambda tensor, rank: fill(tensor, rank + 1)
    spoilt = measure(40_000, iterations=1, warm_up=0, device=CPU)
    (folder / f"rank-{rank}.json").write_text(json.dumps([good.as_json(), spoilt.as_json()]))
    dist.barrier()


def test_every_rank_tells_the_same_positive_time_and_right_sums(tmp_path: Path) -> None:
    run_ranks(RANKS, measured, tmp_path)
    figures = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(RANKS)]
    assert figures[0] == figures[1] == figures[2], "the slowest rank's time counts for all"
    good, spoilt = figures[0]
    assert (good["bytes"], good["count"], good["wrong"]) == (40_000, 10_000, 0)
    assert 0 < good["time_us"] < 60e6
    assert good["busbw_gbs"] == pytest.approx(good["algbw_gbs"] * 4 / 3)
    assert spoilt["wrong"] == RANKS * 10_000, "wrong elements are counted over all ranks"


def slow(rank: int, world_size: int, folder: Path) -> None:
    import time

    plain = dist.all_reduce

    def delayed(tensor: torch.Tensor, *arguments: object, **options: object) -> None:
        plain(tensor, *arguments, **options)
        if rank == 1 and len(tensor) > 1:
            time.sleep(0.05)

    dist.all_reduce = delayed
    row = measure(4000, iterations=4, warm_up=0, device=CPU)
    if rank == 0:
        (folder / "told.json").write_text(json.dumps(row.as_json()))
    plain(torch.zeros(1))


def test_the_slowest_rank_s_time_counts(tmp_path: Path) -> None:
    """A rank that needs 50 ms more after each all-reduce, the last one too: only its own clock sees all four."""
    run_ranks(2, slow, tmp_path)
    assert told(tmp_path)["time_us"] >= 50_000


def summed(ranks: int, length: int = 3 * PERIOD) -> torch.Tensor:
    parts = [torch.zeros(length) for _ in range(ranks)]
    for rank, part in enumerate(parts):
        fill(part, rank)
    return torch.stack(parts).sum(dim=0)


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_a_right_sum_has_no_wrong_element(ranks: int) -> None:
    assert wrong_elements(summed(ranks), ranks) == 0


def test_each_corrupted_element_is_counted() -> None:
    total = summed(4)
    total[0] += 1
    total[PERIOD] = math.nan
    total[-1] = math.inf
    assert wrong_elements(total, 4) == 3


def test_what_lands_elsewhere_is_seen() -> None:
    assert wrong_elements(summed(4).roll(1024), 4) > 2 * PERIOD


def test_a_rank_counted_twice_and_another_not_at_all_is_seen() -> None:
    total = summed(3)
    twice, missing = torch.zeros_like(total), torch.zeros_like(total)
    fill(twice, 2)
    fill(missing, 1)
    assert wrong_elements(total + twice - missing, 3) == len(total)


def test_what_is_longer_than_a_piece_is_compared_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_reduce, "_CHUNK", 2 * PERIOD)
    total = summed(2, length=5 * PERIOD + 7)
    assert wrong_elements(total, 2) == 0
    total[-1] += 2
    assert wrong_elements(total, 2) == 1
