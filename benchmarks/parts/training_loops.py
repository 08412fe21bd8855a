"""The training loops that benchmarks.training_speed compares, all on random weights and random tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from benchmarks.parts.loop_setting import LEARNING_RATE, Loop, Setting, fill_randomly, qwen
from benchmarks.parts.other_loops import earlier, seed, unsharded
from training.activations import checkpoint_activations
from training.causal_loss import CausalLoss
from training.compile import compile_blocks
from training.cuda_graph import RecordedStep
from training.document_attention import attend_by_bounds
from training.gpu_peaks import GIB
from training.memory_plan import ModelShape, Workload, plan_memory
from training.optimizer import ShardedAdamW, decay_groups
from training.sharding import MIXED, Sharding, shard
from training.step import Batch, PendingFigures, TrainStep


@dataclass
class OurLoop:
    step: Callable[[Sequence[Batch]], PendingFigures]
    batch: Callable[[], Batch]
    """The next step's, on the device."""
    before: list[PendingFigures] = field(default_factory=list)

    def __call__(self) -> None:
        self.before.append(self.step([self.batch()]))
        if len(self.before) > 1:
            self.before.pop(0).read()  # the step before this one, as a loop that logs each step does


@dataclass(frozen=True, kw_only=True)
class Ours:
    """This project's step with some of its parts."""

    compiled: bool = True
    recorded: bool = False
    keep_gathered: bool = False
    exchange: bool = False
    peer_copies: bool = False
    checkpointing: str = "none"
    blocks_per_unit: int = 1
    chunk_tokens: int = 0
    torchs_adamw: bool = False
    documents: bool = False
    """Fed with token files (training_speed --feed), batches tell their documents apart."""
    precision: str | None = None

    def __call__(self, setting: Setting) -> Loop:
        model = qwen(setting, on_meta=True)
        if self.documents:
            attend_by_bounds(model, setting.device, torch.bfloat16 if setting.precision == MIXED else torch.float32)
        objective = CausalLoss(model, chunk_tokens=self.chunk_tokens, compiled=self.compiled)
        objective.train()
        checkpoint_activations(objective, self.checkpointing)
        if self.compiled:
            again = self.checkpointing == "pointwise"
            compile_blocks(objective, _fail, recompute_pointwise=again, backend=setting.compiler)
        options = Sharding(
            precision=self.precision or setting.precision,
            keep_gathered=self.keep_gathered,
            exchange=self.exchange,
            peer_copies=self.peer_copies,
            blocks_per_unit=self.blocks_per_unit,
        )
        shard(objective, setting.device, options)
        fill_randomly(objective.model, setting.device)
        groups = decay_groups(objective, 0.1, decay_embeddings=False)
        optimizer = ShardedAdamW(groups, LEARNING_RATE, compiled=self.compiled and not self.torchs_adamw)
        plain = TrainStep(objective, optimizer, options)
        step = RecordedStep(plain) if self.recorded else plain
        rows = setting.tokens(1)
        batch = {"input_ids": rows[:, :-1].contiguous(), "labels": rows[:, 1:].contiguous()}
        return OurLoop(step, lambda: batch)


_BEST = Ours(recorded=True, keep_gathered=True, exchange=True)
_PEERS = replace(_BEST, peer_copies=True)
LOOPS: dict[str, Callable[[Setting], Loop]] = {
    "seed": seed,
    "unsharded": unsharded,
    "earlier": earlier,
    "lean": Ours(compiled=False),
    "compiled": Ours(),
    "gathered": Ours(keep_gathered=True),
    "exchange": Ours(keep_gathered=True, exchange=True),
    "recorded": _BEST,
    "peers": _PEERS,
    "pointwise": replace(_BEST, checkpointing="pointwise"),
    "recorded-resharded": replace(_BEST, keep_gathered=False),
    "recorded-float32-reduction": replace(_BEST, exchange=False),
    "recorded-bf16": replace(_BEST, precision="bf16"),
    "recorded-selective": replace(_BEST, checkpointing="selective"),
    "recorded-full": replace(_BEST, checkpointing="full"),
    "gathered-documents": Ours(keep_gathered=True, documents=True),
    "peers-unrecorded": replace(_PEERS, recorded=False),
    "peers-resharded": replace(_PEERS, keep_gathered=False),
    "peers-pointwise": replace(_PEERS, checkpointing="pointwise"),
    "peers-torchs-adamw": replace(_PEERS, torchs_adamw=True),
    "exchange-two-blocks": Ours(keep_gathered=True, exchange=True, blocks_per_unit=2),
    "exchange-small-chunks": Ours(keep_gathered=True, exchange=True, chunk_tokens=512),
    "exchange-one-chunk": Ours(keep_gathered=True, exchange=True, chunk_tokens=8192),
}
"""Each of the first nine has one part more than the one before; the others change one part of a later one."""


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
        peer_copies=loop.peer_copies,
        blocks_per_unit=loop.blocks_per_unit,
        chunk_tokens=loop.chunk_tokens,
    )
    return plan_memory(shape, work).peak / GIB


def _fail(told: str) -> None:
    raise RuntimeError(told)
