"""Bytes that a training step sends between nodes, for fsdp and hsdp, as the kernel counts them and as theory has it.

    sudo python -m benchmarks.shard_traffic [--nodes 2] [--per-node 2] [--steps 5] [--json FILE]

Each node is a network namespace of its own, joined to the next by nothing but a virtual cable; ranks of one node talk
within it. gloo carries the collectives, the model is small and computes on the CPU, in bfloat16 with float32 weights as
on GPUs. Counted is what goes over the cable in one direction, set-up and first steps left out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.parts.loop_setting import TINY, fill_randomly
from training.causal_loss import CausalLoss
from training.optimizer import ShardedAdamW, decay_groups
from training.sharding import MIXED, Sharding, shard, transformer_blocks
from training.step import TrainStep

CPU = torch.device("cpu")
SHAPE = TINY | {"vocab_size": 8192, "hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 4}
_PREFIX, _CABLE = "shard-traffic", "cable"
SHARDINGS: dict[str, dict[str, Any]] = {
    "fsdp": {"mode": "fsdp"},
    "fsdp, parameters kept gathered": {"mode": "fsdp", "keep_gathered": True},
    "hsdp": {"mode": "hsdp"},
}


@dataclass(frozen=True)
class Traffic:
    """Bytes a step in one direction between two nodes."""

    sharding: str
    counted: float
    expected: float
    """By what gloo does."""
    with_nccl: float
    """By the rings NCCL takes."""
    least: float
    """What any algorithm must send."""


def expected_bytes(
    options: Sharding, *, blocks: int, root: int, nodes: int, per_node: int, backend: str = "gloo"
) -> float:
    """For collectives as rings over all ranks, node by node: one of a ring's steps between ranks crosses a cable.

    `blocks` and `root` are parameters. A ring of N ranks sends (N - 1) / N of what it gathers or scatters, and twice
    that of what it sums up everywhere; gloo reduces and scatters by summing up everywhere.
    """
    gathered, reduced = 2, 4  # bytes a parameter
    if options.mode == "fsdp":
        share = 1 - 1 / (nodes * per_node)
        gathers = 1 if options.keep_gathered else 2
        sums = 2 if backend == "gloo" else 1
        return share * (gathered * (gathers * blocks + root) + sums * reduced * (blocks + root))
    return 2 * (1 - 1 / nodes) * reduced * (blocks + root)


def least_bytes(options: Sharding, *, blocks: int, root: int, nodes: int) -> float:
    """A node needs every parameter that it does not keep once, and gives away each gradient once, already summed."""
    gathered, reduced = 2, 4
    share = 1 - 1 / nodes
    if options.mode == "fsdp":
        times = 1 if options.keep_gathered else 2
        return share * (gathered * (times * blocks + root) + reduced * (blocks + root))
    return 2 * share * reduced * (blocks + root)


def work(rank: int, options: argparse.Namespace) -> None:
    """What each rank runs, within the namespace of its node."""
    torch.set_num_threads(1)
    ranks = options.nodes * options.per_node
    dist.init_process_group("gloo", init_method=f"file://{options.store}", rank=rank, world_size=ranks)
    node_of_rank = [number // options.per_node for number in range(ranks)]
    results = []
    for name, settings in SHARDINGS.items():
        sharding = Sharding(precision=MIXED, **settings)
        objective = CausalLoss(_model())
        sizes = _sizes(objective)
        shard(objective, CPU, sharding, node_of_rank)
        fill_randomly(objective.model, CPU)
        step = TrainStep(objective, ShardedAdamW(decay_groups(objective, 0.1, decay_embeddings=False), 1e-4), sharding)
        tokens = torch.randint(0, SHAPE["vocab_size"], (1, 32))
        batch = {"input_ids": tokens, "labels": tokens}
        for _ in range(2):
            step([batch]).read()
        before = _sent()
        for _ in range(options.steps):
            step([batch]).read()
        counted = (_sent() - before) / options.steps
        layout = {"nodes": options.nodes, "per_node": options.per_node}
        expected, with_nccl = (
            expected_bytes(sharding, **sizes, **layout, backend=backend) for backend in ("gloo", "nccl")
        )
        least = least_bytes(sharding, **sizes, nodes=options.nodes)
        results.append(Traffic(name, counted, expected, with_nccl, least))
    if rank == 0:
        Path(options.out).write_text(json.dumps([asdict(result) for result in results]))
    dist.barrier()
    os._exit(0)


def _model() -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    with torch.device("meta"):
        return Qwen2ForCausalLM(Qwen2Config(**SHAPE)).train()


def _sizes(objective: torch.nn.Module) -> dict[str, int]:
    blocks = sum(parameter.numel() for block in transformer_blocks(objective) for parameter in block.parameters())
    return {"blocks": blocks, "root": sum(parameter.numel() for parameter in objective.parameters()) - blocks}


def _sent() -> int:
    """By this rank's node, once all ranks have come so far."""
    dist.barrier()
    return int(Path(f"/sys/class/net/{_CABLE}0/statistics/tx_bytes").read_text())


@contextmanager
def namespaces(count: int) -> Iterator[list[str]]:
    """Nodes on one switch; each cable is called cable0 within its node."""
    names = [f"{_PREFIX}-{number}" for number in range(count)]
    switch = f"{_PREFIX}-br"[:15]

    def ip(*words: str, check: bool = True) -> None:
        subprocess.run(["ip", *words], check=check, capture_output=not check)

    def clear() -> None:
        for name in names:
            ip("netns", "delete", name, check=False)
        ip("link", "delete", switch, check=False)

    clear()
    try:
        ip("link", "add", switch, "type", "bridge")
        ip("link", "set", switch, "up")
        for number, name in enumerate(names):
            outer = f"stc{number}"
            ip("netns", "add", name)
            ip("link", "add", outer, "type", "veth", "peer", "name", f"{_CABLE}0", "netns", name)
            ip("link", "set", outer, "master", switch, "up")
            ip("-n", name, "address", "add", f"10.97.31.{number + 1}/24", "dev", f"{_CABLE}0")
            ip("-n", name, "link", "set", f"{_CABLE}0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        clear()


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder, namespaces(options.nodes) as names:
        out, store = Path(folder, "out.json"), Path(folder, "store")
        environment = os.environ | {"GLOO_SOCKET_IFNAME": f"{_CABLE}0"}
        command = [sys.executable, "-m", "benchmarks.shard_traffic", "--nodes", str(options.nodes)]
        command += ["--per-node", str(options.per_node), "--steps", str(options.steps)]
        command += ["--out", str(out), "--store", str(store)]
        processes = [
            subprocess.Popen(
                ["ip", "netns", "exec", names[rank // options.per_node], *command, "--rank", str(rank)],
                env=environment,
            )
            for rank in range(options.nodes * options.per_node)
        ]
        try:
            failed = [process.args for process in processes if process.wait(timeout=1200)]
        finally:
            for process in processes:
                process.kill()
        if failed:
            sys.exit(f"{len(failed)} ranks failed")
        results: list[dict[str, Any]] = json.loads(out.read_text())
        return results


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--per-node", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--json")
    for inner in ("--rank", "--out", "--store"):
        parser.add_argument(inner, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    chosen = parse()
    if chosen.rank is not None:
        work(int(chosen.rank), chosen)
    found = measure(chosen)
    first = found[0]["counted"]
    print(f"{chosen.nodes} nodes x {chosen.per_node} ranks, MB a step in one direction")
    for one in found:
        counted, wanted = one["counted"] / 1e6, one["expected"] / 1e6
        print(
            f"{one['sharding']:32} counted {counted:8.2f}  expected {wanted:8.2f} ({counted / wanted - 1:+.1%})  "
            f"NCCL's rings {one['with_nccl'] / 1e6:8.2f}  least possible {one['least'] / 1e6:8.2f}  "
            f"of fsdp {one['counted'] / first:.2f}"
        )
    if chosen.json is not None:
        Path(chosen.json).write_text(json.dumps({"options": vars(chosen), "traffic": found}, indent=1))
