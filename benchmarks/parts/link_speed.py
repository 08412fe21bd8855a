"""What the machine can do at most: its matrix products, its memory, its links, and how fast its CPU starts kernels."""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

BLOCK_ELEMENTS = 46_797_824  # parameters of one block of Qwen2.5-1.5B
_REPEATS = 10


def link_speeds(device: torch.device, *, tiny: bool) -> dict[str, float]:
    """Collectives in GB/s that each rank sends, of a block's bfloat16 weights or float32 gradients."""
    ranks = dist.get_world_size()
    elements = ranks * (256 if tiny else BLOCK_ELEMENTS // ranks)
    whole = torch.zeros(elements, dtype=torch.bfloat16, device=device)
    part, other = whole[: elements // ranks].clone(), torch.empty_like(whole)
    wide, narrow = whole.float(), part.float()
    sent = (ranks - 1) / ranks * elements / 1e9
    size = 64 if tiny else 8192
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    single = torch.zeros(1, device=device)
    copied = torch.empty(1024 if tiny else 2**30, dtype=torch.uint8, device=device)
    target = torch.empty_like(copied)

    def thousand_kernels() -> None:
        for _ in range(1000):
            single.add_(1)

    seconds = {
        "all_gather_gb_s": _seconds(lambda: dist.all_gather_into_tensor(whole, part), device),
        "reduce_scatter_float32_gb_s": _seconds(lambda: dist.reduce_scatter_tensor(narrow, wide), device),
        "exchange_bfloat16_gb_s": _seconds(lambda: dist.all_to_all_single(other, whole), device),
        "matrix_tflops": _seconds(lambda: torch.mm(left, right), device),
        "memory_gb_s": _seconds(lambda: target.copy_(copied), device),
        "kernels_started_per_ms": _seconds(thousand_kernels, device),
    }
    amounts = {
        "all_gather_gb_s": 2 * sent,
        "reduce_scatter_float32_gb_s": 4 * sent,
        "exchange_bfloat16_gb_s": 2 * sent,
        "matrix_tflops": 2 * size**3 / 1e12,
        "memory_gb_s": 2 * len(copied) / 1e9,
        "kernels_started_per_ms": 1.0,
    }
    return {name: round(amounts[name] / taken, 1) for name, taken in seconds.items()}


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        work()
    wait()
    dist.barrier()
    started = time.perf_counter()
    for _ in range(_REPEATS):
        work()
    wait()
    return (time.perf_counter() - started) / _REPEATS
