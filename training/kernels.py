"""Whether our own Triton kernels can run: torch for GPUs brings Triton along, but not on every platform."""

from functools import cache
from importlib.util import find_spec

import torch


def run_on(device: torch.device) -> bool:
    return device.type == "cuda" and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
