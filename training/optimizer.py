"""AdamW over the shards a rank owns, and what it decays."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from training import kernels

BETAS = (0.9, 0.95)
EPSILON = 1e-8


def decay_groups(module: torch.nn.Module, weight_decay: float, *, decay_embeddings: bool) -> list[dict[str, Any]]:
    """Matrices decay; biases, norms and, unless asked for, embeddings do not. A head tied to them is an embedding."""
    embeddings = {
        id(parameter)
        for child in module.modules()
        if isinstance(child, torch.nn.Embedding)
        for parameter in child.parameters(recurse=False)
    }
    decayed: list[torch.Tensor] = []
    others: list[torch.Tensor] = []
    for parameter in module.parameters():
        if not parameter.requires_grad:
            continue
        decays = parameter.ndim >= 2 and (decay_embeddings or id(parameter) not in embeddings)
        (decayed if decays else others).append(parameter)
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def changes(saved: Sequence[Mapping[str, Any]], asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each number of AdamW that a run asks for and its checkpoint was not trained with.

    Both are param_groups with the parameters' names; the learning rate is the schedule's and not compared.
    """
    lines = []
    for name in ("weight_decay", "betas", "eps"):
        before, now = ([group[name] for group in groups if group.get(name)] for groups in (saved, asked))
        if before != now:
            lines.append(
                f"{name} is {_first(now)} from here on, as asked: the checkpoint was trained with {_first(before)}"
            )
    if [set(group["params"]) for group in saved] != [set(group["params"]) for group in asked]:
        lines.append("what decays is as asked from here on: in the checkpoint other parameters did")
    return lines


def _first(values: Sequence[Any]) -> Any:
    return values[0] if values else 0.0


class ShardedAdamW(torch.optim.AdamW):  # type: ignore[misc]
    """torch's fused AdamW, or a kernel of our own, called on the local shards themselves.

    Each operation on DTensors is dispatched in Python, which for some hundred parameters takes longer than the update.
    State keeps torch's names and is DTensors, so that distributed checkpoints hold it as they would torch's own. Each
    parameter has its state from the start, so that a checkpoint holds the same whether a loss has used it yet or not.
    """

    def __init__(self, groups: list[dict[str, Any]], lr: float, *, compiled: bool = False) -> None:
        """`compiled` lets GPUs have a kernel of our own, where there is Triton and all parameters fit it."""
        super().__init__(groups, lr=lr, betas=BETAS, eps=EPSILON, fused=True)
        self._rates: dict[int, tuple[float, torch.Tensor]] = {}
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        self._update: Callable[..., None] = _torchs_update
        if compiled and all(fits_kernel(local(parameter)) for parameter in parameters):
            from training.adamw_kernel import AdamWKernel

            self._update = AdamWKernel()
        for parameter in parameters:
            self.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=local(parameter).device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }

    def trained(self) -> set[torch.Tensor]:
        """The parameters that it has updated, in this run or those it goes on from."""
        return {parameter for parameter, state in self.state.items() if state["step"] > 0}

    def set_learning_rate(self, lr: float) -> None:
        """For the steps that follow. The device reads it from memory, so that a recorded CUDA graph sees it too."""
        for index, group in enumerate(self.param_groups):
            group["lr"] = lr
            if index in self._rates:
                self._rate(index, lr, self._rates[index][1].device)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(
        self,
        closure: Callable[[], Any] | None = None,
        *,
        gradient_scale: torch.Tensor | None = None,
        skip: torch.Tensor | None = None,
    ) -> None:
        """Gradients count divided by `gradient_scale`; where `skip` is 1 nothing changes. Both are float32 scalars.

        Neither is looked at by the CPU.
        """
        assert closure is None
        for index, group in enumerate(self.param_groups):
            owned = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not owned:
                continue
            states = [self.state[parameter] for parameter in owned]
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1)
            beta1, beta2 = group["betas"]
            update = _torchs_update if gradient_scale is None or skip is None else self._update
            update(
                [local(parameter) for parameter in owned],
                [local(parameter.grad) for parameter in owned],
                [local(state["exp_avg"]) for state in states],
                [local(state["exp_avg_sq"]) for state in states],
                steps,
                lr=self._rate(index, group["lr"], steps[0].device),
                beta1=beta1,
                beta2=beta2,
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                grad_scale=gradient_scale,
                found_inf=skip,
            )
            if skip is not None:
                torch._foreach_sub_(steps, [skip] * len(steps))

    def _rate(self, index: int, lr: float, device: torch.device) -> torch.Tensor:
        value, rate = self._rates.get(index, (lr, None))
        if rate is None or rate.device != device:
            rate = torch.full((), lr, dtype=torch.float32, device=device)
        elif value != lr:
            rate.fill_(lr)
        self._rates[index] = lr, rate
        return rate


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part, the tensor itself where it is not split."""
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def fits_kernel(tensor: torch.Tensor) -> bool:
    """Gradients and moments are laid out as their parameter is."""
    return kernels.run_on(tensor.device) and tensor.dtype == torch.float32 and tensor.is_contiguous()


def _torchs_update(*tensors: list[torch.Tensor], **numbers: Any) -> None:
    *lists, steps = tensors
    torch._fused_adamw_(*lists, [], steps, amsgrad=False, maximize=False, **numbers)
