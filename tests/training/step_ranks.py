"""What the tests of the training step run in one process and in several: the same rows, split between the ranks."""

import json
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from tests.training.ranks import run_ranks
from training.activations import checkpoint_activations
from training.causal_loss import CausalLoss
from training.errors import FinalError
from training.failure import final_unless_outage
from training.loss import IGNORED
from training.optimizer import ShardedAdamW, decay_groups
from training.peer_memory import Share, Shared, ShareWithin, sharing_of_gpus
from training.schedule import Schedule
from training.sharding import Sharding, shard
from training.step import TrainStep

STEPS, MICRO_BATCHES, LENGTH, WORDS, RANKS = 20, 2, 16, 61, 4
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Case:
    """One way to train."""

    sharding: dict[str, Any] | None = None
    nodes: tuple[int, ...] = (0, 0, 0, 0)
    """Where the ranks are said to run."""
    checkpointing: str = "none"
    steps: int = STEPS
    share_memory: bool = False
    """As GPUs of a node do."""
    only_matrices: bool = False
    """Learn; norms and biases are frozen."""


def model() -> torch.nn.Module:
    from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
    from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM

    torch.manual_seed(11)
    built = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=WORDS,
            hidden_size=24,  # no multiple of the ranks for any bias or norm of 6: shards are uneven
            intermediate_size=40,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=1,
            max_position_embeddings=64,
            tie_word_embeddings=True,
            initializer_range=0.2,
            use_cache=False,
        )
    )
    module: torch.nn.Module = built.train()
    return module


def rows_of(step: int, rank: int, micro_batch: int) -> dict[str, torch.Tensor]:
    """Of 1 to 3 rows, with labels left out here and there; the last batch of every fifth step has none at all."""
    generator = torch.Generator().manual_seed(1000 * step + 10 * rank + micro_batch)
    rows = 1 + (step + rank + micro_batch) % 3
    start = torch.randint(0, WORDS, (rows, 1), generator=generator)
    tokens = (start + 7 * torch.arange(LENGTH + 1)) % WORDS  # learnable: each word follows from the one before
    labels = tokens[:, 1:].clone()
    labels[torch.rand(labels.shape, generator=generator) < 0.1 * rank] = IGNORED
    if step % 5 == 0 and rank == RANKS - 1 and micro_batch == MICRO_BATCHES - 1:
        labels[:] = IGNORED
    return {"input_ids": tokens[:, :-1], "labels": labels}


def batches_of(step: int) -> list[dict[str, torch.Tensor]]:
    """This rank's share of what RANKS ranks would see."""
    share = RANKS // dist.get_world_size()
    mine = range(dist.get_rank() * share, (dist.get_rank() + 1) * share)
    return [
        {name: torch.cat([rows_of(step, rank, index)[name] for rank in mine]) for name in ("input_ids", "labels")}
        for index in range(MICRO_BATCHES)
    ]


def run_all(rank: int, world_size: int, folder: Path, cases: dict[str, Case]) -> None:
    for number, case in enumerate(cases.values()):
        run(rank, folder / str(number), case)


def run(rank: int, folder: Path, case: Case) -> None:
    objective = CausalLoss(model(), chunk_tokens=16)
    for parameter in objective.parameters():
        if case.only_matrices and parameter.ndim == 1:
            parameter.requires_grad_(False)
    checkpoint_activations(objective, case.checkpointing)
    options = None if case.sharding is None else Sharding(**case.sharding, peer_copies=case.share_memory)
    if options is not None:
        share_within = sharing_files(folder) if case.share_memory else sharing_of_gpus
        shard(objective, CPU, options, case.nodes, share_within)
    optimizer = ShardedAdamW(decay_groups(objective, 0.1, decay_embeddings=False), lr=1.0)
    schedule = Schedule(peak=0.02, steps=STEPS, warm_up_steps=4, floor=0.1)
    step = TrainStep(objective, optimizer, options)
    told = []
    for number in range(1, case.steps + 1):
        optimizer.set_learning_rate(schedule.at(number))
        figures = step(batches_of(number)).read()
        told.append((figures.loss, figures.gradient_norm, figures.tokens))
    weights = {name: whole(parameter) for name, parameter in objective.model.named_parameters()}
    if rank == 0:
        folder.mkdir()
        torch.save(weights, folder / "weights.pt")
        (folder / "told.json").write_text(json.dumps(told))


class SharedByFiles(Shared):
    """A file for each rank's buffer, which all ranks map."""

    def __init__(self, group: dist.ProcessGroup, name: str, elements: int, dtype: torch.dtype) -> None:
        super().__init__(group.rank(), group.size())
        self._group, self._dtype, self._size = group, dtype, elements * dtype.itemsize
        self._files = [f"{name}-{rank}" for rank in dist.get_process_group_ranks(group)]
        with Path(self._files[self.rank]).open("wb") as file:
            file.truncate(self._size)
        self.meet()

    def part(self, rank: int, start: int, elements: int) -> torch.Tensor:
        mapped = np.memmap(self._files[rank], dtype=np.uint8, mode="r+", shape=self._size)
        begin, end = (at * self._dtype.itemsize for at in (start, start + elements))
        return torch.from_numpy(mapped[begin:end]).view(self._dtype)

    def meet(self) -> None:
        dist.barrier(self._group)


def sharing_files(folder: Path) -> ShareWithin:
    def share_within(device: torch.device, group: dist.ProcessGroup) -> Share:
        made = count()
        return lambda elements, dtype, _: SharedByFiles(group, f"{folder}-shared-{next(made)}", elements, dtype)

    return share_within


def run_broken(rank: int, world_size: int, folder: Path, broken_rank: int) -> None:
    """One rank's gradient is made infinite in the second step; what does each rank say, and what are its weights?"""
    objective = CausalLoss(model(), chunk_tokens=16)
    options = Sharding()
    shard(objective, CPU, options)
    optimizer = ShardedAdamW(decay_groups(objective, 0.1, decay_embeddings=False), lr=0.01)
    step = TrainStep(objective, optimizer, options)
    step(batches_of(1)).read()
    before = {name: whole(parameter).clone() for name, parameter in objective.named_parameters()}
    batches = batches_of(2)
    if rank == broken_rank:
        objective.model.model.norm.register_forward_hook(lambda *told: told[2] * float("inf"))
    pending = step(batches)
    after = {name: whole(parameter) for name, parameter in objective.named_parameters()}
    unchanged = all(torch.equal(before[name], after[name]) for name in before)
    steps = {float(state["step"]) for state in optimizer.state.values()}
    try:
        with final_unless_outage():
            pending.read()
        said = "nothing"
    except FinalError as error:
        said = str(error)
    (folder / f"told-{rank}").write_text(json.dumps({"said": said, "unchanged": unchanged, "steps": sorted(steps)}))


def whole(parameter: torch.Tensor) -> torch.Tensor:
    full = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
    return full.detach()


Training = tuple[list[tuple[float, float, int]], dict[str, torch.Tensor]]
"""(loss, gradient norm, tokens) of each step, and the weights at the end."""


def trained(folder: Path, ranks: int, cases: dict[str, Case]) -> dict[str, Training]:
    """Each of the cases, one after another in the same processes: those take longer to start than to train."""
    run_ranks(ranks, run_all, folder, cases)
    return {
        name: (
            json.loads((folder / str(number) / "told.json").read_text()),
            torch.load(folder / str(number) / "weights.pt"),
        )
        for number, name in enumerate(cases)
    }
