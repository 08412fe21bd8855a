"""One size of an all-reduce between all ranks: how long it takes, and whether its result is right."""

import time

import torch
import torch.distributed as dist

from training.bus_bandwidth import ELEMENT_BYTES, Row

# A prime: what lands a power of two of elements away from its place is seen.
PERIOD = 1021
CHECKS = 1
_CHUNK = PERIOD * 4096


def measure(size: int, *, iterations: int, warm_up: int, device: torch.device) -> Row:
    """Called by every rank together; every rank returns the same.

    As nccl-tests does it: the time of `iterations` in a row, begun together and ended when the device has finished,
    divided by their number; then a further all-reduce, of known values, whose every element is compared.
    """
    ranks = dist.get_world_size()
    tensor = torch.zeros(size // ELEMENT_BYTES, dtype=torch.float32, device=device)
    for _ in range(warm_up):
        dist.all_reduce(tensor)
    _together(device)
    started = time.perf_counter()
    for _ in range(iterations):
        dist.all_reduce(tensor)
    _finished(device)
    slowest = torch.tensor([(time.perf_counter() - started) / iterations], dtype=torch.float64, device=device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)

    fill(tensor, dist.get_rank())
    dist.all_reduce(tensor)
    wrong = torch.tensor([wrong_elements(tensor, ranks)], dtype=torch.int64, device=device)
    dist.all_reduce(wrong)
    return Row(size=size, ranks=ranks, seconds=slowest.item(), wrong=int(wrong.item()))


def fill(tensor: torch.Tensor, rank: int) -> None:
    """Each rank's own values, which tell an element's place. Their sums are whole, so exact, up to 4,800 ranks."""
    pattern = _pattern(tensor)
    for chunk in tensor.split(_CHUNK):
        chunk.copy_(pattern[: len(chunk)]).add_(rank)


def wrong_elements(tensor: torch.Tensor, ranks: int) -> int:
    """How many elements are not the sum of what `fill` gave to ranks 0 to ranks-1."""
    expected = _pattern(tensor) * ranks + ranks * (ranks - 1) // 2
    return sum(int((chunk != expected[: len(chunk)]).sum().item()) for chunk in tensor.split(_CHUNK))


def _pattern(tensor: torch.Tensor) -> torch.Tensor:
    length = min(len(tensor), _CHUNK)
    return torch.arange(length, device=tensor.device).remainder_(PERIOD).to(tensor.dtype)


def _together(device: torch.device) -> None:
    dist.all_reduce(torch.zeros(1, device=device))
    _finished(device)


def _finished(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
