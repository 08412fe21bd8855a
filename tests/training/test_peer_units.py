"""Copies between GPUs must give the very weights that the process group gives."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.nn import functional

from tests.training.ranks import CPU, run_ranks
from tests.training.step_ranks import sharing_files
from tests.training.test_cuda_graph import train
from training.errors import TrainingError
from training.optimizer import ShardedAdamW, decay_groups
from training.sharding import Sharding, shard
from training.step import TrainStep


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="copies between GPUs need two")
@pytest.mark.parametrize("keep_gathered", [False, True])
def test_copies_between_gpus_train_as_nccl_does(tmp_path: Path, keep_gathered: bool) -> None:
    ranks = torch.cuda.device_count()
    multiprocessing.spawn(compare, (ranks, str(tmp_path / "store"), keep_gathered), nprocs=ranks)


def compare(rank: int, ranks: int, store: str, keep_gathered: bool) -> None:
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=ranks, device_id=device)
    kinds = {"compiled": False, "keep_gathered": keep_gathered}
    told, weights = train(rank, device, recorded=False, **kinds)
    for recorded in (False, True):
        torch.cuda._sleep(1 << 31)  # a second or so, in which the CPU gets ahead: what is shared is made all the same
        by_copies, copied = train(rank, device, recorded=recorded, peer_copies=True, **kinds)
        assert by_copies == told
        for name, expected in weights.items():
            assert torch.equal(copied[name], expected), name
    dist.destroy_process_group()


class Block(nn.Module):  # type: ignore[misc]
    """The only vector of it, which is what is left to FSDP, is in use or is not."""

    def __init__(self, uses_vector: bool) -> None:
        super().__init__()
        self.uses_vector = uses_vector
        self.wide = nn.Linear(16, 16, bias=False)
        self.vector = nn.Parameter(torch.ones(16))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        changed = states + torch.relu(self.wide(states))
        return changed * self.vector if self.uses_vector else changed


class Model(nn.Module):  # type: ignore[misc]
    _no_split_modules = ("Block",)

    def __init__(self, uses_vector: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 16)
        self.layers = nn.ModuleList([Block(uses_vector) for _ in range(2)])
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states = self.embedding(input_ids)
        for layer in self.layers:
            states = layer(states)
        loss = functional.cross_entropy((states * self.scale).float().flatten(0, 1), labels.flatten(), reduction="sum")
        return loss, torch.tensor(labels.numel())


def steps_of_both(rank: int, world_size: int, folder: Path) -> None:
    for uses_vector in (True, False):
        module, options = Model(uses_vector), Sharding(precision="mixed", peer_copies=True)
        shard(module, CPU, options, None, sharing_files(folder / str(uses_vector)))
        optimizer = ShardedAdamW(decay_groups(module, 0.1, decay_embeddings=False), lr=0.01)
        step: TrainStep = TrainStep(module, optimizer, options)
        rows = torch.randint(0, 8, (2, 9), generator=torch.Generator().manual_seed(rank))
        said = "nothing"
        try:
            for _ in range(3):
                step([{"input_ids": rows[:, :-1], "labels": rows[:, 1:]}]).read()
        except TrainingError as error:
            said = str(error)
        (folder / f"{uses_vector}-{rank}.txt").write_text(said)


def test_gradients_that_fsdp_would_leave_where_they_are_end_the_run_on_every_rank(tmp_path: Path) -> None:
    run_ranks(2, steps_of_both, tmp_path)
    for rank in range(2):
        assert (tmp_path / f"True-{rank}.txt").read_text() == "nothing"
        assert (tmp_path / f"False-{rank}.txt").read_text() == (
            "--cuda_graph on: gradients of Linear.weight were made and not reduced, for the loss uses nothing else "
            "that is trained in their unit; take --cuda_graph off"
        )
