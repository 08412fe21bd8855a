"""The training loops that this project's are compared with."""

from functools import partial

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn import functional

from benchmarks.parts.loop_setting import LEARNING_RATE, Loop, Setting, fill_randomly, qwen
from training.attention import use_mask_free_attention
from training.optimizer import BETAS
from training.sharding import Sharding, shard
from training.step import MAX_GRADIENT_NORM


def seed(setting: Setting) -> Loop:
    """The loop this project began with: FSDP1 by size, bfloat16, plain AdamW, the model's own loss, a sync a step."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

    model = qwen(setting, on_meta=False, use_cache=True).to(torch.bfloat16)
    smallest = int(1e7) if setting.device.type == "cuda" else int(1e4)
    policy = partial(size_based_auto_wrap_policy, min_num_params=smallest)
    sharded = FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=setting.device)
    optimizer = torch.optim.AdamW(sharded.parameters(), lr=LEARNING_RATE)
    tokens = setting.tokens()

    def run() -> None:
        optimizer.zero_grad()
        loss = sharded(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        loss.item()

    return run


def unsharded(setting: Setting) -> Loop:
    """The best a GPU did alone: bfloat16 throughout, the whole model and its loss in one compilation, no clipping."""
    model = qwen(setting, on_meta=False).to(torch.bfloat16)
    use_mask_free_attention(model)  # else the compiled model masks, and attention is no flash kernel
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    tokens = setting.tokens()
    compiled = torch.compile(
        lambda: model(input_ids=tokens, labels=tokens, use_cache=False).loss, backend=setting.compiler
    )

    def run() -> None:
        compiled().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return run


def earlier(setting: Setting) -> Loop:
    """FSDP2 block by block with the model's own logits, DTensors in clipping and optimizer, and a sync a step."""
    model = qwen(setting, on_meta=True)
    shard(model, setting.device, Sharding(precision=setting.precision, exchange=False))
    fill_randomly(model, setting.device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=BETAS, fused=setting.device.type == "cuda"
    )
    rows = setting.tokens(1)

    def run() -> None:
        logits = model(input_ids=rows[:, :-1]).logits
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        if isinstance(norm, DTensor):
            norm = norm.full_tensor()
        total = loss.detach().clone()
        dist.all_reduce(total)
        total.item(), norm.item()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return run
