"""Our Triton kernels against torch, on a GPU."""

from typing import Any

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


def test_adamw_updates_as_torchs_does_in_float64_and_changes_nothing_in_a_skipped_step() -> None:
    from training.optimizer import ShardedAdamW

    sizes = [(1,), (7, 3), (), (0, 4), (4096,), (1000, 2500)]
    generator = torch.Generator("cuda").manual_seed(0)

    def random(size: tuple[int, ...]) -> torch.Tensor:
        return torch.randn(size, generator=generator, device="cuda")

    ours = [torch.nn.Parameter(random(size)) for size in sizes]
    exact = [torch.nn.Parameter(parameter.detach().double()) for parameter in ours]

    def groups(parameters: list[torch.nn.Parameter]) -> list[dict[str, Any]]:
        return [{"params": parameters[:4], "weight_decay": 0.0}, {"params": parameters[4:], "weight_decay": 0.1}]

    optimizer = ShardedAdamW(groups(ours), lr=1e-2, compiled=True)
    defaults = optimizer.defaults
    reference = torch.optim.AdamW(groups(exact), betas=defaults["betas"], eps=defaults["eps"], lr=1e-2, fused=True)
    for number in range(1, 8):
        rate = 1e-2 / number
        optimizer.set_learning_rate(rate)
        for group in reference.param_groups:
            group["lr"] = rate
        skipped = number == 3
        for parameter, other in zip(ours, exact, strict=True):
            parameter.grad = random(parameter.shape)
            other.grad = None if skipped else parameter.grad.double() / 8
            if skipped:
                parameter.grad.fill_(float("nan"))
        optimizer.step(
            gradient_scale=torch.tensor(8.0, device="cuda"), skip=torch.tensor(float(skipped), device="cuda")
        )
        reference.step()
    for parameter, other in zip(ours, exact, strict=True):
        torch.testing.assert_close(parameter, other.float(), rtol=1e-6, atol=1e-6)
        for name in ("step", "exp_avg", "exp_avg_sq"):
            found, expected = optimizer.state[parameter][name], reference.state[other][name].float()
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
