"""What the tests of weights run in several processes."""

import json
from pathlib import Path

import torch

from tests.training.batches import next_token_batch
from tests.training.step_ranks import CPU, whole
from training.causal_loss import CausalLoss
from training.sharding import Sharding, shard
from training.weights import load_shards, model_on_meta, weight_files, why_not_by_shards


def load_and_compare(rank: int, world_size: int, folder: Path, directory: Path, nodes: tuple[int, ...]) -> None:
    """Load by shards; tell how the weights and a loss differ from what from_pretrained gives."""
    from transformers import AutoModelForCausalLM

    model = model_on_meta(directory)
    objective = CausalLoss(model)
    shard(objective, CPU, Sharding(mode="hsdp" if len(set(nodes)) > 1 else "fsdp"), nodes)
    files = weight_files(directory)
    assert why_not_by_shards(model, files) is None
    load_shards(model, files, CPU)
    expected = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    weights = {name: whole(parameter) for name, parameter in model.named_parameters()}
    batch = next_token_batch(torch.arange(34).reshape(2, 17) % 96)
    with torch.no_grad():
        loss, right = objective(**batch)[0], CausalLoss(expected)(**batch)[0]
    told = {
        "names": sorted(weights) == sorted(name for name, _ in expected.named_parameters()),
        "equal": [name for name, right in expected.named_parameters() if not torch.equal(weights[name], right)],
        "loss": [float(loss), float(right)],
        "tied": model.get_input_embeddings().weight is model.get_output_embeddings().weight,
    }
    (folder / f"told-{rank}").write_text(json.dumps(told))


def load_and_measure(rank: int, world_size: int, folder: Path, directory: Path, by_shards: bool) -> None:
    """Tell by how many bytes this process grew at most while it loaded."""
    model = model_on_meta(directory)
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_config(tiny_config())  # what is imported on first use is no part of what is measured
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew (proc(5))
    if by_shards:
        shard(model, CPU, Sharding())
        load_shards(model, weight_files(directory), CPU)
    else:
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        shard(model, CPU, Sharding())
    (folder / f"grew-{rank}").write_text(str(_memory("VmHWM") - before))


def tiny_config() -> object:
    from transformers import Qwen2Config

    return Qwen2Config(
        vocab_size=8,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
    )


def _memory(field: str) -> int:
    """Bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024
