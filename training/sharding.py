"""FSDP2: every parameter, gradient and optimizer state split over all ranks."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def shard(module: torch.nn.Module, device: torch.device) -> None:
    """Shard in place over one mesh of all ranks: each transformer block is a unit, the rest is the root's.

    fully_shard moves what it shards to the device, block by block, so no GPU ever holds the whole model.
    """
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    policy = precision(device)
    for block in transformer_blocks(module):
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(module, mesh=mesh, mp_policy=policy)


def precision(device: torch.device) -> MixedPrecisionPolicy:
    """On CUDA the master weights stay float32, compute is bfloat16 and gradients are reduced in float32."""
    if device.type == "cuda":
        return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return MixedPrecisionPolicy()


def transformer_blocks(module: torch.nn.Module) -> list[torch.nn.Module]:
    """The repeated layers, by the class names that every transformers model lists as not to be split."""
    names = set(getattr(module, "_no_split_modules", None) or ())
    return [child for child in module.modules() if type(child).__name__ in names]


def make_optimizer(module: torch.nn.Module, lr: float, device: torch.device) -> torch.optim.Optimizer:
    """AdamW over the shards, so only after shard()."""
    return torch.optim.AdamW(module.parameters(), lr=lr, betas=(0.9, 0.95), fused=device.type == "cuda")
