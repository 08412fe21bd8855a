import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.training import ranks
from training.intervals import length, uncovered, union
from training.profile import StepProfiler, overlap
from training.storage import LocalFolder


@pytest.mark.parametrize(
    ("intervals", "by", "left"),
    [
        ([(0, 10)], [], 10),
        ([(0, 10)], [(2, 4), (3, 6)], 6),
        ([(0, 4), (2, 10)], [(0, 10)], 0),
        ([(0, 1), (5, 6)], [(1, 5)], 2),
        ([], [(0, 3)], 0),
        ([(0, 10)], [(-5, 1), (9, 20)], 8),
    ],
)
def test_what_nothing_covers(intervals: list[Any], by: list[Any], left: float) -> None:
    assert uncovered(intervals, by) == left


def test_time_is_counted_once_however_often_it_is_covered() -> None:
    assert union([(3, 4), (0, 2), (1, 3)]) == [(0, 4)]
    assert length([(0, 2), (1, 3), (5, 6)]) == 4


def event(name: str, start_us: float, end_us: float, *, gpu: bool = True, annotation: bool = False) -> Any:
    kinds = torch.autograd.DeviceType
    return SimpleNamespace(
        name=name,
        time_range=SimpleNamespace(start=start_us, end=end_us),
        device_type=kinds.CUDA if gpu else kinds.CPU,
        is_user_annotation=annotation,
    )


def test_on_a_gpu_only_kernels_count_and_only_what_nothing_hides_is_exposed() -> None:
    found = overlap(
        [
            event("ncclDevKernel_AllGather_RING_LL(...)", 0, 3_000_000),
            event("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(...)", 5_000_000, 6_000_000),
            event("nvjet_tst_192x192", 1_000_000, 5_500_000),
            event("nccl:all_gather", 0, 9_000_000, annotation=True),
            event("aten::mm", 0, 9_000_000, gpu=False),
        ],
        on_gpu=True,
    )
    assert vars(found) == {"communication": 4.0, "exposed_communication": 1.5, "compute": 4.5}


def profiled(rank: int, world_size: int, folder: Path) -> None:
    module, optimizer, dataset = ranks.build(sharded=True)
    profiler = StepProfiler({2}, LocalFolder(folder / "traces"), rank, ranks.CPU)
    for step in (1, 2):
        with profiler.around(step):
            ranks.train(module, optimizer, dataset, range(step, step + 1))
    (folder / f"told-{rank}.json").write_text(json.dumps(profiler.figures()))


def test_every_rank_leaves_a_trace_of_the_named_step_and_says_how_long_it_waited(tmp_path: Path) -> None:
    ranks.run_ranks(2, profiled, tmp_path)
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == [
        "step-000002-rank-00000.json.gz",
        "step-000002-rank-00001.json.gz",
    ]
    trace = json.loads(gzip.decompress((tmp_path / "traces" / "step-000002-rank-00001.json.gz").read_bytes()))
    names = {entry.get("name") for entry in trace["traceEvents"]}
    assert {"aten::mm", "gloo:all_gather"} <= names
    for rank in range(2):
        told = json.loads((tmp_path / f"told-{rank}.json").read_text())
        assert told.keys() == {"2"}, "only the named step"
        assert 0 < told["2"]["exposed_communication"] <= told["2"]["communication"]
