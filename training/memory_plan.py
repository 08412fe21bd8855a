"""How much GPU memory a run will take, said before it starts. No torch here.

A step has three moments at which most is held: the loss (all activations, some logits), the first block's backward
(all activations, its gradients, what is being reduced) and the end of backward (all gradients, the root's reduction).
The largest of them is the plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from training.gpu_peaks import GIB, Gpu
from training.heads import Head, head_of
from training.loss_chunks import chunk_tokens_for

OUTSIDE_TORCH = 1.5 * GIB
"""CUDA's context, cuBLAS' and NCCL's buffers: on the GPU, but not torch's to count."""
FRAGMENTATION = 1.05
"""What the caching allocator holds for each byte that is in use."""

_NEEDED = {"num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size", "vocab_size"}
_NORMS_SHARE = 0.01
"""Of all parameters: some models have norms in places that are not counted here."""


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """`attention` and `key_value` are widths: heads times the size of a head."""

    layers: int
    hidden: int
    intermediate: int
    vocab: int
    heads: int
    attention: int
    key_value: int
    tied: bool
    attention_bias: bool
    head: Head | None
    """None where the loss needs the logits of all tokens at once."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "ModelShape":
        """From config.json of a transformers decoder with gated feed-forward layers (Llama, Mistral, Qwen2, ...)."""
        heads = int(config["num_attention_heads"])
        head = int(config.get("head_dim") or config["hidden_size"] // heads)
        return cls(
            layers=int(config["num_hidden_layers"]),
            hidden=int(config["hidden_size"]),
            intermediate=int(config["intermediate_size"]),
            vocab=int(config["vocab_size"]),
            heads=heads,
            attention=heads * head,
            key_value=int(config.get("num_key_value_heads") or heads) * head,
            tied=bool(config.get("tie_word_embeddings", False)),
            attention_bias=bool(config.get("attention_bias", config.get("model_type") == "qwen2")),
            head=head_of(config),
        )

    @classmethod
    def found_in(cls, config: Mapping[str, Any], parameters: int) -> "ModelShape | None":
        """None for a model that is no decoder with gated feed-forward layers, for which there is no plan.

        `parameters` is how many the model really has, by which experts and layers without a gate are told.
        """
        if not all(isinstance(config.get(name), int) for name in _NEEDED):
            return None
        shape = cls.of(config)
        return shape if abs(shape.parameters - parameters) <= _NORMS_SHARE * parameters else None

    @property
    def block_parameters(self) -> int:
        qkv = self.attention + 2 * self.key_value
        attention = self.hidden * (qkv + self.attention) + (qkv if self.attention_bias else 0)
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def root_parameters(self) -> int:
        """Embedding, head and last norm."""
        return self.vocab * self.hidden * (1 if self.tied else 2) + self.hidden

    @property
    def parameters(self) -> int:
        return self.layers * self.block_parameters + self.root_parameters


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Of one rank. The names are those of the job's settings."""

    batch_size: int
    seq_len: int
    split_over: int
    """Ranks that share one copy of the model: all of them for fsdp, a node's for hsdp."""
    precision: str = "mixed"
    activation_checkpointing: str = "none"
    compiled: bool = True
    keep_gathered: bool = False
    exchange: bool = True
    peer_copies: bool = False
    reduce_each_micro_batch: bool = True
    micro_batches: int = 1
    blocks_per_unit: int = 1
    chunk_tokens: int = 0
    """Of the loss; 0 lets it choose."""

    @property
    def tokens(self) -> int:
        return self.batch_size * self.seq_len


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes at the moment at which most is held."""

    moment: str
    parts: dict[str, float]

    @property
    def peak(self) -> float:
        """As torch.cuda.max_memory_allocated counts."""
        return sum(self.parts.values())

    @property
    def needed(self) -> float:
        """What a GPU must have in all."""
        return self.peak * FRAGMENTATION + OUTSIDE_TORCH

    def fits(self, gpu: Gpu) -> bool:
        return self.needed <= gpu.memory_gib * GIB

    def line(self, gpu: Gpu | None = None) -> str:
        parts = ", ".join(f"{name} {size / GIB:.1f}" for name, size in self.parts.items() if size >= 0.05 * GIB)
        text = f"memory plan: {self.peak / GIB:.1f} GiB a rank at {self.moment} ({parts})"
        if gpu is None:
            return text
        verdict = "fits" if self.fits(gpu) else "does not fit"
        return f"{text}; with what CUDA keeps {self.needed / GIB:.1f} of {gpu.memory_gib:.1f} GiB: {verdict} {gpu.name}"


def plan_memory(shape: ModelShape, work: Workload) -> MemoryPlan:
    stored = 2 if work.precision == "bf16" else 4
    computed = 4 if work.precision == "fp32" else 2
    exchanged = work.exchange and work.precision == "mixed" and work.reduce_each_micro_batch
    reduced = 4 if work.precision == "mixed" and not exchanged else computed
    owned = shape.parameters / work.split_over
    unit = work.blocks_per_unit * shape.block_parameters
    head = shape.vocab * shape.hidden
    kept = activation_bytes(shape, work, computed)
    blocks_gathered = shape.layers * shape.block_parameters * computed if work.keep_gathered else 0
    earlier = owned * stored if work.micro_batches > 1 else 0.0
    if not work.reduce_each_micro_batch and work.micro_batches > 1:
        earlier = shape.parameters * (4.0 if work.precision == "mixed" else computed)
    always = {"weights": owned * stored, "optimizer": 2 * owned * stored}
    if exchanged and work.peer_copies:
        # What other ranks send of a block's gradients and of the root's has its place, also where it is not there.
        always["exchange"] = (1 - 1 / work.split_over) * (unit + shape.root_parameters) * computed
    root = shape.root_parameters * computed
    in_flight = unit * (computed + 2 * reduced + (reduced if exchanged else 0))
    # In backward a resharded block is there twice, as it was gathered and as it is used, and the next one once.
    gathered = root + (blocks_gathered or 3 * unit * computed)
    moments = {
        "the loss": {
            **always,
            "gradients": earlier + 4.0 * head,
            "gathered parameters": root + blocks_gathered,
            "activations": kept + work.tokens * shape.hidden * computed,
            "logits": _logits_bytes(shape, work, computed),
        },
        "the first block's backward": {
            **always,
            "gradients": earlier + head * computed + in_flight,
            "gathered parameters": gathered,
            "activations": kept + _backward_bytes(shape, work, computed),
            "logits": 0.0,
        },
        "the end of backward": {
            **always,
            "gradients": max(earlier, owned * stored)
            + root
            + shape.root_parameters * reduced * (2 if exchanged else 1),
            "gathered parameters": gathered,
            "activations": kept / shape.layers + _backward_bytes(shape, work, computed),
            "logits": 0.0,
        },
    }
    moment = max(moments, key=lambda name: sum(moments[name].values()))
    return MemoryPlan(moment, moments[moment])


def _logits_bytes(shape: ModelShape, work: Workload, element: int) -> float:
    if shape.head is None:
        # The float32 softmax that torch keeps, its gradient, and the gradient of the logits that is made of both.
        return work.tokens * shape.vocab * 12.0
    soft_capped = shape.head.soft_cap is not None
    chunk = work.chunk_tokens or chunk_tokens_for(shape.vocab, element, compiled=work.compiled, soft_capped=soft_capped)
    # Their gradient takes their place, or has its own and a float32 copy of them is made.
    bytes_each = (element if work.compiled else 2 * element + 4) + (element if soft_capped else 0)
    return float(min(chunk, work.tokens) * shape.vocab * bytes_each)


def activation_bytes(shape: ModelShape, work: Workload, element: int) -> float:
    """What forward leaves for backward in all blocks, the last norm and the loss."""
    last = work.tokens * shape.hidden * (2 * element + (0 if element == 4 else 4))
    return shape.layers * work.tokens * _block_bytes(shape, work, element) + last


def _block_bytes(shape: ModelShape, work: Workload, element: int) -> float:
    """Bytes a token leaves in one block."""
    if work.activation_checkpointing == "full":
        return shape.hidden * element
    # Queries, keys, values and the result of attention, with its float32 sums.
    attention = element * (2 * shape.attention + 2 * shape.key_value) + 4 * shape.heads
    wide = element * shape.intermediate
    if work.compiled:
        # Kept: the two residuals and, as inputs of matrix products, both norms' outputs, gate, up and their product.
        # What one pass can make again from the others is left out where the pass may run in backward (compile.py).
        if work.activation_checkpointing == "pointwise":
            return element * 2 * shape.hidden + attention + 2 * wide
        feed_forward = 0 if work.activation_checkpointing == "selective" else 3 * wide
        return element * 4 * shape.hidden + attention + feed_forward
    # A norm keeps its input in float32, that normalised, and its output.
    norm = shape.hidden * (4 + (0 if element == 4 else element) + element)
    feed_forward = 0 if work.activation_checkpointing == "selective" else 4 * wide
    return 2 * norm + attention + feed_forward


def _backward_bytes(shape: ModelShape, work: Workload, element: int) -> float:
    """What one block's backward holds besides: gradients of what it kept, and what it computes again."""
    gradients = work.tokens * element * (3 * shape.intermediate + 2 * shape.hidden)
    if work.activation_checkpointing == "none":
        return gradients
    without = replace(work, activation_checkpointing="none")
    again = _block_bytes(shape, without, element) - _block_bytes(shape, work, element)
    return gradients + work.tokens * again
