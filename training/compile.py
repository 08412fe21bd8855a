"""torch.compile block by block, and the way back to eager where it cannot."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config

from training.sharding import transformer_blocks

Backend = str | Callable[..., Any]


def compile_blocks(
    module: torch.nn.Module,
    say: Callable[[str], None],
    *,
    recompute_pointwise: bool = False,
    backend: Backend = "inductor",
) -> None:
    """Before the blocks are sharded: FSDP's hooks then run around what is compiled and never within.

    All blocks share one compilation, since parameters are inputs to it; a whole model would compile for minutes and
    break at each block's hooks all the same. `recompute_pointwise` lets backward make norms' outputs and the product of
    gate and up again, which the compiler otherwise keeps since matrix products read them. Where compiling fails, `say`
    is told once and all blocks run eagerly.
    """
    blocks = transformer_blocks(module)
    # Each block holds its own entries of the one cache; the default limit of 8 is meant for shapes, not for layers.
    torch._dynamo.config.cache_size_limit = max(torch._dynamo.config.cache_size_limit, 2 * len(blocks))
    compiler = _recomputing(backend) if recompute_pointwise else backend
    failed: list[str] = []

    def failed_with(error: Exception) -> None:
        if not failed:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            failed.append(" ".join(lines[:2]))  # the backend's name comes first, then what it says
            say(f"torch.compile failed, so blocks run eagerly: {type(error).__name__}: {failed[0]}")

    for block in blocks:
        block.forward = _compiled_or_eager(block.forward, compiler, failed, failed_with)


def _compiled_or_eager(
    forward: Callable[..., Any], backend: Backend, failed: list[str], failed_with: Callable[[Exception], None]
) -> Callable[..., Any]:
    compiled = torch.compile(forward, backend=backend, fullgraph=True)

    @wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        if failed:
            return forward(*args, **kwargs)
        try:
            return compiled(*args, **kwargs)
        except torch._dynamo.exc.TorchDynamoException as error:
            failed_with(error)
            return forward(*args, **kwargs)

    return run


def _recomputing(backend: Backend) -> Backend:
    inner = torch._dynamo.lookup_backend(backend) if isinstance(backend, str) else backend

    def compile_graph(*told: Any, **options: Any) -> Any:
        with torch._functorch.config.patch(ban_recompute_materialized_backward=False):
            return inner(*told, **options)

    return compile_graph


def keep_compilations(directory: Path) -> None:
    """Before anything is compiled: ranks of this node, and later runs on it, take from here what is there already."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(directory / "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", str(directory / "triton"))
