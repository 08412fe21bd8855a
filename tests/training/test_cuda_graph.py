"""A step that is replayed must leave the weights that the same step leaves unrecorded."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from training.causal_loss import CausalLoss
from training.compile import compile_blocks
from training.cuda_graph import RecordedStep
from training.optimizer import ShardedAdamW, decay_groups
from training.sharding import Sharding, shard
from training.step import TrainStep

STEPS, ROWS, LENGTH, WORDS = 12, 2, 128, 512


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs are recorded on GPUs only")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_recorded_step_computes_the_very_same(tmp_path: Path, compiled: bool) -> None:
    ranks = torch.cuda.device_count()
    multiprocessing.spawn(compare, (ranks, str(tmp_path / "store"), compiled), nprocs=ranks)


def compare(rank: int, ranks: int, store: str, compiled: bool) -> None:
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=ranks, device_id=device)
    eager_told, eager = train(rank, device, compiled, recorded=False)
    told, weights = train(rank, device, compiled, recorded=True)
    if not compiled:  # inductor picks its kernels anew for each model, which need not round alike
        assert told == eager_told
    for number, (one, other) in enumerate(zip(told, eager_told, strict=True), 1):
        assert one.loss == pytest.approx(other.loss, rel=1e-3), f"at step {number}"
    for name, expected in eager.items():
        torch.testing.assert_close(weights[name], expected, rtol=2e-2, atol=2e-3, msg=name)
    dist.destroy_process_group()


def train(
    rank: int,
    device: torch.device,
    compiled: bool,
    *,
    recorded: bool,
    keep_gathered: bool = True,
    peer_copies: bool = False,
) -> tuple[list[Any], dict[str, Any]]:
    from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
    from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM

    torch.manual_seed(3)
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=WORDS, num_hidden_layers=3, tie_word_embeddings=True, **sizes))
    root = CausalLoss(model, compiled=compiled)
    if compiled:
        compile_blocks(root, pytest.fail)
    options = Sharding(precision="mixed", keep_gathered=keep_gathered, peer_copies=peer_copies)
    shard(root, device, options)
    optimizer = ShardedAdamW(decay_groups(root, 0.1, decay_embeddings=False), lr=1e-3, compiled=True)
    plain = TrainStep(root, optimizer, options)
    step = RecordedStep(plain) if recorded else plain
    root.train()
    told = []
    for number in range(STEPS):
        optimizer.set_learning_rate(1e-3 / (1 + number))  # a replay reads it from memory
        generator = torch.Generator().manual_seed(100 * number + rank)
        # One step has batches of another shape, which no recording fits.
        length = LENGTH // 2 if number == 8 else LENGTH
        tokens = torch.randint(0, WORDS, (2, ROWS, length + 1), generator=generator).to(device)
        batches = [{"input_ids": rows[:, :-1].contiguous(), "labels": rows[:, 1:].contiguous()} for rows in tokens]
        told.append(step(batches).read())
        if number == 6:  # leaves parameters gathered that the next step makes old
            with torch.no_grad():
                root(**batches[0], likeliest=True)
    return told, {name: parameter.to_local().clone() for name, parameter in root.named_parameters()}
