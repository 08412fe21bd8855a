"""The training loops that benchmarks.training_speed compares, all on random weights and random tokens."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn import functional

from training.activations import checkpoint_activations
from training.attention import use_mask_free_attention
from training.causal_loss import CausalLoss
from training.compile import compile_blocks
from training.cuda_graph import RecordedStep
from training.gpu_peaks import GIB
from training.loss import chunk_tokens_for
from training.memory_plan import ModelShape, Workload, plan_memory
from training.optimizer import BETAS, ShardedAdamW, decay_groups
from training.sharding import FP32, MIXED, Sharding, shard
from training.step import MAX_GRADIENT_NORM, PendingFigures, TrainStep
from training.weights import make_unstored_buffers, tied_names

QWEN_1_5B = {
    "vocab_size": 151_936,
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
}
TINY = QWEN_1_5B | {"vocab_size": 512, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3}
LEARNING_RATE = 1e-5
Loop = Callable[[], None]
"""One step; nothing in it waits for the device that the loop it stands for would not wait for."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all loops of a run have in common."""

    shape: dict[str, Any]
    batch_size: int
    seq_len: int
    device: torch.device
    compiler: str = "inductor"
    precision: str = MIXED

    def tokens(self, more: int = 0) -> torch.Tensor:
        generator = torch.Generator().manual_seed(dist.get_rank())
        rows = torch.randint(0, self.shape["vocab_size"], (self.batch_size, self.seq_len + more), generator=generator)
        return rows.to(self.device)


@dataclass(frozen=True, kw_only=True)
class Ours:
    """This project's step with some of its parts."""

    compiled: bool = True
    recorded: bool = False
    keep_gathered: bool = False
    exchange: bool = False
    checkpointing: str = "none"
    blocks_per_unit: int = 1
    chunk_tokens: int = 0
    precision: str | None = None

    def __call__(self, setting: Setting) -> Loop:
        objective = CausalLoss(_qwen(setting, on_meta=True), chunk_tokens=self.chunk_tokens, compiled=self.compiled)
        objective.train()
        checkpoint_activations(objective, self.checkpointing)
        if self.compiled:
            again = self.checkpointing == "pointwise"
            compile_blocks(objective, _fail, recompute_pointwise=again, backend=setting.compiler)
        options = Sharding(
            precision=self.precision or setting.precision,
            keep_gathered=self.keep_gathered,
            exchange=self.exchange,
            blocks_per_unit=self.blocks_per_unit,
        )
        shard(objective, setting.device, options)
        fill_randomly(objective.model, setting.device)
        optimizer = ShardedAdamW(decay_groups(objective, 0.1, decay_embeddings=False), lr=LEARNING_RATE)
        plain = TrainStep(objective, optimizer, options)
        step = RecordedStep(plain) if self.recorded else plain
        rows = setting.tokens(1)
        batch = {"input_ids": rows[:, :-1].contiguous(), "labels": rows[:, 1:].contiguous()}
        before: list[PendingFigures] = []

        def run() -> None:
            before.append(step([batch]))
            if len(before) > 1:
                before.pop(0).read()  # the step before this one, as a loop that logs each step does

        return run


def seed(setting: Setting) -> Loop:
    """The loop this project began with: FSDP1 by size, bfloat16, plain AdamW, the model's own loss, a sync a step."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

    model = _qwen(setting, on_meta=False, use_cache=True).to(torch.bfloat16)
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
    model = _qwen(setting, on_meta=False).to(torch.bfloat16)
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
    model = _qwen(setting, on_meta=True)
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


_BEST = Ours(recorded=True, keep_gathered=True, exchange=True)
LOOPS: dict[str, Callable[[Setting], Loop]] = {
    "seed": seed,
    "unsharded": unsharded,
    "earlier": earlier,
    "lean": Ours(compiled=False),
    "compiled": Ours(),
    "gathered": Ours(keep_gathered=True),
    "exchange": Ours(keep_gathered=True, exchange=True),
    "recorded": _BEST,
    "pointwise": replace(_BEST, checkpointing="pointwise"),
    "recorded-resharded": replace(_BEST, keep_gathered=False),
    "recorded-float32-reduction": replace(_BEST, exchange=False),
    "recorded-bf16": replace(_BEST, precision="bf16"),
    "recorded-selective": replace(_BEST, checkpointing="selective"),
    "recorded-full": replace(_BEST, checkpointing="full"),
    "exchange-two-blocks": Ours(keep_gathered=True, exchange=True, blocks_per_unit=2),
    "exchange-small-chunks": Ours(keep_gathered=True, exchange=True, chunk_tokens=512),
    "exchange-one-chunk": Ours(keep_gathered=True, exchange=True, chunk_tokens=8192),
}
"""Each of the first eight has one part more than the one before; the others change one part of a later one."""


def planned_gib(loop: Callable[[Setting], Loop], setting: Setting, ranks: int) -> float | None:
    """The peak that the memory planner tells of one of our own loops."""
    if not isinstance(loop, Ours):
        return None
    shape = ModelShape.of(setting.shape | {"model_type": "qwen2"})
    precision = loop.precision or setting.precision
    work = Workload(
        batch_size=setting.batch_size,
        seq_len=setting.seq_len,
        split_over=ranks,
        precision=precision,
        activation_checkpointing=loop.checkpointing,
        compiled=loop.compiled,
        keep_gathered=loop.keep_gathered,
        exchange=loop.exchange,
        blocks_per_unit=loop.blocks_per_unit,
        chunk_tokens=loop.chunk_tokens or chunk_tokens_for(shape.vocab, 4 if precision == FP32 else 2),
    )
    return plan_memory(shape, work).peak / GIB


def fill_randomly(model: Any, device: torch.device) -> None:
    """Weights for a model on the meta device, sharded or not: norms 1, biases 0, all else as Qwen2 begins."""
    state: dict[str, torch.Tensor] = {}
    for names in tied_names(model).values():
        wanted = model.get_parameter(names[0])
        whole = not isinstance(wanted, DTensor)
        part = torch.empty(wanted.shape if whole else wanted._local_tensor.shape, device=device, dtype=wanted.dtype)
        if "norm" in names[0]:
            part.fill_(1.0)
        elif wanted.ndim < 2:
            part.zero_()
        else:
            part.normal_(0.0, 0.02)
        if not whole:
            part = DTensor.from_local(
                part, wanted.device_mesh, wanted.placements, run_check=False, shape=wanted.shape, stride=wanted.stride()
            )
        state |= dict.fromkeys(names, torch.nn.Parameter(part))
    model.load_state_dict(state, assign=True)
    make_unstored_buffers(model, device)


def _qwen(setting: Setting, *, on_meta: bool, use_cache: bool = False) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(**setting.shape)
    config.use_cache = use_cache
    with torch.device("meta" if on_meta else setting.device):
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(config)
    return model.train()


def _fail(told: str) -> None:
    raise RuntimeError(told)
