"""Where a rank keeps its tensors and computes."""

import os

import ray.train
import torch
from ray.train.torch import get_device


def rank_device(process_group: str) -> torch.device:
    """The rank's GPU under NCCL, else the CPU, with torch's threads set to this rank's part of the cores."""
    if process_group == "nccl":
        device: torch.device = get_device()
        return device
    torch.set_num_threads(threads_per_rank(ray.train.get_context().get_local_world_size()))
    return torch.device("cpu")


def threads_per_rank(ranks_here: int) -> int:
    """Torch threads that leave no core with two. Ranks of several Ray nodes on one host count together."""
    return max(1, (os.cpu_count() or 1) // ranks_here)
