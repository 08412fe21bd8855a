"""Whole attempts of a run without Ray: gloo ranks, each a node of its own, that hand back NCCL's lines and have devices
that count bytes."""

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import torch

from tests.training.arguments import config
from training.config import TrainConfig
from training.errors import TrainingError
from training.failure import final_unless_outage
from training.job_kind import RankTask
from training.nccl_lines import NcclLines
from training.train import train

STEPS, MOVED = 4, 5_000_000_000
OUTAGES = {"export": "training.export.export_from_ranks", "report": "training.measure.write_result"}


def run_config(folder: Path) -> TrainConfig:
    return config(
        storage_path=folder / "runs",
        worker_resource="trainer",
        steps=STEPS,
        checkpoint_every=2,
        seq_len=32,
        batch_size=2,
        eval_batches=1,
        export_to=folder / "exported",
    )


def attempt(rank: int, world_size: int, folder: Path, number: int, outage: str) -> None:
    """`outage` names what finds no storage, "" for nothing. What rank N prints goes to log-N, what it raises to
    told-N.json."""
    nccl, lines = folder / f"nccl-{number}-{rank}", NcclLines(rank)
    nccl.write_text(f"here:{os.getpid()}:1 [0] NCCL INFO of attempt {number}\n")

    def after_the_steps(*_: Any, **__: Any) -> None:
        with nccl.open("a") as file:
            file.write(f"here:{os.getpid()}:1 [0] NCCL INFO after the steps\n")
        raise TrainingError("there is no storage") from OSError("timed out")

    told = "done"
    with (folder / f"log-{rank}").open("a") as log, redirect_stdout(log), ExitStack() as patches:
        for place, with_what in _without_ray(rank, folder).items():
            patches.enter_context(patch(place, with_what))
        if outage:
            patches.enter_context(patch(OUTAGES[outage], after_the_steps))
        lines.follow(nccl)
        patches.callback(lines.finish)
        task = RankTask(config=run_config(folder), job_environment=(), started_at=time.time(), prepared=None)
        try:
            with final_unless_outage():
                train(task, lines)
        except TrainingError as error:
            told = f"{type(error).__name__}: {error}"
    (folder / f"told-{rank}.json").write_text(json.dumps(told))


def _without_ray(rank: int, folder: Path) -> dict[str, Any]:
    context = SimpleNamespace(get_node_id=lambda: f"node-{rank}")
    ray = SimpleNamespace(
        __version__="2",
        get_runtime_context=lambda: context,
        util=SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1"),
    )
    return {
        "training.attempt.rank_device": lambda process_group: torch.device("cpu"),
        "training.evidence.ray": ray,
        "training.evidence.node_directory": lambda: folder,
        "training.told.ray": Mock(),
        "training.export.export_from_ranks": lambda *_: None,
        "training.efa_devices.read": _counting(),
    }


def _counting() -> Callable[[], dict[str, dict[str, int]]]:
    """Of one device: each reading finds it to have moved as much again."""
    readings = iter(range(0, 100 * MOVED, MOVED))
    return lambda: {"rdmap0s31": dict.fromkeys(("tx_bytes", "rx_bytes"), next(readings))}
