"""Our Triton kernels against torch, on a GPU."""

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="Triton runs on GPUs only")


@pytest.mark.parametrize("elements", [1, 4096, 100_003])
@pytest.mark.parametrize(("rank", "ranks"), [(0, 2), (1, 2), (1, 3), (7, 8)])
def test_ranks_parts_are_added_in_float32(elements: int, rank: int, ranks: int) -> None:
    from training.add_kernel import add_in_float32

    parts = torch.randn(ranks, elements, device="cuda", dtype=torch.bfloat16)
    others = torch.cat([parts[other] for other in range(ranks) if other != rank])
    output = torch.empty(elements, device="cuda")
    add_in_float32(output, parts[rank].clone(), others, rank=rank, ranks=ranks, divisor=ranks)
    torch.testing.assert_close(output, parts.double().mean(0).float(), rtol=1e-6, atol=1e-6)
