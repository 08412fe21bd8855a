"""One attempt of a run of any kind, as each of its ranks sees it: where it runs and what it tells."""

import time
from dataclasses import dataclass
from typing import Any, Generic

import torch
import torch.distributed as dist

from training import evidence
from training.job_kind import Config, RankTask
from training.nccl_lines import NcclLines
from training.rank_device import rank_device
from training.run_directory import RunDirectory


@dataclass(frozen=True)
class Attempt(Generic[Config]):
    """An attempt ends where a rank dies; Ray then starts all ranks anew."""

    config: Config
    run: RunDirectory
    number: int
    device: torch.device
    rank: int
    world_size: int
    node_of_rank: list[int]
    testimony: dict[str, Any]

    def say(self, line: str) -> None:
        if self.rank == 0:
            # One write, so that no line of NCCL's comes between.
            print(f"[{self.config.mark}] {line}\n", end="", flush=True)

    def testify(self, **more: Any) -> None:
        """Each time as far as the rank has come: a rank that dies leaves what it told last."""
        self.testimony.update(more)
        evidence.write_testimony(self.run.attempt(self.number), self.testimony)


def begin(task: RankTask[Config], lines: NcclLines) -> Attempt[Config]:
    """Called by every rank together. Raises TrainingError where they do not share storage."""
    worker_group_s = time.time() - task.started_at
    config, rank, world_size = task.config, dist.get_rank(), dist.get_world_size()
    device = rank_device(config.process_group)
    run = RunDirectory.of(config)
    begun = [run.begin_attempt(worker_group_s) if rank == 0 else 0]
    dist.broadcast_object_list(begun, src=0)
    number = begun[0]
    run.check_shared(number)
    testimony = evidence.testify(
        attempt=number,
        device=device,
        job_environment=task.job_environment,
        requirements=config.pip,
        lines=lines,
    )
    nodes: list[int] = [0] * world_size
    dist.all_gather_object(nodes, testimony["node_rank"])
    attempt = Attempt(config, run, number, device, rank, world_size, nodes, testimony)
    how = f"{worker_group_s:.1f} s" if number == 1 else f"attempt {number}"
    attempt.say(f"worker group up: {world_size} ranks on {max(nodes) + 1} nodes ({how})")
    return attempt
