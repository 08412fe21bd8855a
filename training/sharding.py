"""FSDP2: every parameter, gradient and optimizer state split over the ranks of a node or over all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from training.config import PRECISIONS
from training.peer_memory import ShareWithin, sharing_of_gpus
from training.peer_units import Units
from training.reduction import ExchangeReduceScatter
from training.topology import FSDP, HSDP, mesh_rows, rows_cross_nodes

MIXED, PURE_BF16, FP32 = PRECISIONS


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """How parameters, gradients and the bytes between ranks are handled."""

    mode: str = FSDP
    precision: str = FP32
    """mixed: float32 weights and reduction, bfloat16 compute. bf16: bfloat16 throughout. fp32: float32 throughout."""
    keep_gathered: bool = False
    """Keep a block's gathered parameters from forward to backward: one all-gather a step less, and a whole copy of the
    compute weights more in memory. For GPUs that have the room (memory_plan tells)."""
    exchange: bool = True
    """Send gradients as the bfloat16 they are and add them in float32, where shards stay within a node."""
    peer_copies: bool = False
    """Where gradients are exchanged and GPUs reach each other's memory, let copy engines move them and the weights. For
    steps that are recorded: the CPU has twice as much to queue."""
    reduce_each_micro_batch: bool = True
    """While gradients accumulate, keep them as shards (False: whole and unreduced on each rank, which saves fsdp a
    reduce-scatter for each micro-batch but takes 4 bytes a parameter)."""
    blocks_per_unit: int = 1
    """Blocks gathered together. More of them make fewer, larger collectives and take more memory."""


def default_precision(*, on_gpu: bool) -> str:
    return MIXED if on_gpu else FP32


def shard(
    module: torch.nn.Module,
    device: torch.device,
    options: Sharding | None = None,
    node_of_rank: Sequence[int] | None = None,
    share_within: ShareWithin = sharing_of_gpus,
) -> DeviceMesh:
    """Shard in place: each transformer block is a unit, the rest is the root's.

    Without `options` all ranks share everything, in the device's default precision. fully_shard moves what it shards
    to the device, block by block, so no GPU ever holds the whole model; a module on the meta device stays there.
    `share_within` says how ranks share memory, if they can.
    """
    options = options or Sharding(precision=default_precision(on_gpu=device.type == "cuda"))
    nodes = list(node_of_rank) if node_of_rank is not None else [0] * dist.get_world_size()
    rows = mesh_rows(options.mode, nodes)
    mesh = _mesh(device, rows, options.mode)
    exchanges = (
        options.exchange
        and options.precision == MIXED
        and options.reduce_each_micro_batch
        and not rows_cross_nodes(rows, nodes)
        and len(rows[0]) > 1  # else there is nothing to exchange, and bfloat16 would be what is added up across nodes
    )
    if options.precision == PURE_BF16:
        for parameter in module.parameters():  # and not module.to: rotary frequencies must stay float32
            parameter.data = parameter.data.to(torch.bfloat16)
    policy = _policy(options.precision, exchanges)
    blocks = transformer_blocks(module)
    units = [
        blocks[start : start + options.blocks_per_unit] for start in range(0, len(blocks), options.blocks_per_unit)
    ]
    for unit in units:
        fully_shard(
            unit if len(unit) > 1 else unit[0],
            mesh=mesh,
            mp_policy=policy,
            reshard_after_forward=not options.keep_gathered,
        )
    # The root (embedding, last norm, head) is used first and last in forward and first in backward: it stays gathered.
    root = fully_shard(module, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    # Asked for in good time: implicit prefetch issues a gather only once the CPU reaches the block that needs it.
    for current, following in zip([root, *(unit[0] for unit in units)], units, strict=False):
        current.set_modules_to_forward_prefetch([following[0]])
    if exchanges:
        share = share_within(device, mesh.get_group("shard")) if options.peer_copies else None
        if share is None:
            for sharded in [root, *(unit[0] for unit in units)]:
                sharded.set_custom_reduce_scatter(ExchangeReduceScatter())
        else:
            together = Units(
                share, torch.bfloat16, gather_in_place=options.keep_gathered, reduce_in_place=options.mode != HSDP
            )
            together.take_over([[root], *units])
    return mesh


def prepare_backward(root: torch.nn.Module, options: Sharding, *, last: bool) -> None:
    """Before each micro-batch of a step: what it reduces, and whether the next one finds its parameters gathered."""
    if not isinstance(root, FSDPModule):
        return
    if options.reduce_each_micro_batch:
        # Within the node each time, which keeps gradients as shards; between nodes once a step.
        root.set_requires_all_reduce(last)
    else:
        root.set_requires_gradient_sync(last)
    if options.keep_gathered:
        root.set_reshard_after_backward(last)


def transformer_blocks(module: torch.nn.Module) -> list[torch.nn.Module]:
    """The repeated layers, by the class names that every transformers model lists as not to be split."""
    names = {
        name
        for child in module.modules()
        for name in getattr(child, "_no_split_modules", None) or ()
        if name is not None
    }
    return [child for child in module.modules() if type(child).__name__ in names]


def _mesh(device: torch.device, rows: list[list[int]], mode: str) -> DeviceMesh:
    if mode == HSDP:
        return DeviceMesh(device.type, rows, mesh_dim_names=("replicate", "shard"))
    return DeviceMesh(device.type, rows[0], mesh_dim_names=("shard",))


def _policy(precision: str, exchanges: bool) -> MixedPrecisionPolicy:
    # Inputs need no cast: they are token ids, and what the embedding makes of them has its dtype already.
    if precision == MIXED:
        reduced = torch.bfloat16 if exchanges else torch.float32
        return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduced, cast_forward_inputs=False)
    return MixedPrecisionPolicy(cast_forward_inputs=False)
