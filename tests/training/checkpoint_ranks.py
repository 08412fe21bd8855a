"""What the tests of checkpoints run in several processes at once."""

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from tests.training import ranks
from tests.training.arguments import config
from tests.training.batches import next_token_batch
from tests.training.fault_ranks import fill, one_weight, progress_at
from tests.training.faulty_folder import Fault, FaultyFolder
from training import checkpoint, checkpointer, evidence
from training.causal_loss import CausalLoss
from training.checkpoint_files import Progress, newest_complete, step_folder
from training.checkpointer import Checkpointer
from training.errors import TrainingError
from training.model import load_model
from training.optimizer import ShardedAdamW, decay_groups
from training.sharding import Sharding, shard
from training.step import TrainStep
from training.storage import LocalFolder, open_folder


class Clock:
    """Stands until it is moved. Storage answers once training asks for the time to wait for it, and has then taken
    WAITED_S more."""

    WAITED_S = 10.0

    def __init__(self) -> None:
        self.now = 0.0
        self.gate = threading.Event()
        self.writing = threading.Event()
        self.awaited = False

    def install(self) -> None:
        """In this process, which is the rank's own."""
        vars(checkpointer)["time"] = self

    def perf_counter(self) -> float:
        now = self.now
        if threading.current_thread() is not threading.main_thread():
            self.writing.set()
        elif self.awaited and not self.gate.is_set():
            self.now += self.WAITED_S
            self.gate.set()
        return now


def trained_while_written(rank: int, world_size: int, folder: Path) -> None:
    """Storage does not answer before training has gone three steps further, of a second each, and waits for it."""
    place, clock = LocalFolder(folder / "checkpoints"), Clock()
    clock.install()
    module, optimizer, dataset = ranks.build(sharded=True)
    losses = ranks.train(module, optimizer, dataset, range(1, ranks.SAVED_AT + 1))
    grown = [(step, loss) for step, loss, _ in losses]
    with Checkpointer(FaultyFolder(place, Fault(gate=clock.gate)), module, optimizer) as saver:
        assert saver.save(Progress(step=ranks.SAVED_AT, losses=grown, eval_before=None)) is None
        clock.writing.wait()
        for step, loss, norm in ranks.train(module, optimizer, dataset, range(ranks.SAVED_AT + 1, ranks.STEPS + 1)):
            grown.append((step, loss))
            losses.append((step, loss, norm))
            clock.now += 1.0
        whole_meanwhile = newest_complete(place)[0] is not None
        dist.barrier()
        clock.awaited = True
        saved = saver.finish()
        again = saver.finish()
    assert saved is not None and again is None
    resumed = ranks.resume(saved.folder)
    if rank == 0:
        told = {
            "straight": [(step, loss) for step, loss, _ in losses],
            "resumed": resumed,
            "whole_meanwhile": whole_meanwhile,
            "figures": saver.figures(),
            "written_s": saved.written_s,
        }
        (folder / "told.json").write_text(json.dumps(told))


def one_at_a_time(rank: int, world_size: int, folder: Path) -> None:
    """The second save waits for the first, and the end for the second; each says which became whole."""
    place, clock = LocalFolder(folder / "checkpoints"), Clock()
    clock.install()
    trained, fault = one_weight(), Fault(gate=clock.gate)
    with Checkpointer(FaultyFolder(place, fault), *trained, keep=1, files={"config.json": b"{}"}) as saver:
        first = saver.save(progress_at(1))
        clock.awaited = True
        second = saver.save(progress_at(2))
    assert first is None and second is not None
    if rank == 0:
        told = {
            "told": second.step,
            "left": sorted(place.names()),
            "exposed": saver.figures()["exposed_s"],
            "count": saver.figures()["count"],
        }
        (folder / "told.json").write_text(json.dumps(told))


def kept_to_the_end(rank: int, world_size: int, folder: Path) -> None:
    trained = one_weight()
    place = LocalFolder(folder / "checkpoints")
    with Checkpointer(place, *trained, keep=1, last_step=3, files={"config.json": b"{}"}) as saver:
        for step in (1, 2, 3):
            saver.save(progress_at(step))
    (folder / "told.json").write_text(json.dumps(sorted(place.names())))


def saved_with_randomness(rank: int, world_size: int, folder: Path, seed: int) -> None:
    """Draw, save, draw: what comes after is what a resumed rank has to draw."""
    seed_all(seed + rank)
    drawn()
    trained = one_weight()
    fill(trained, 3)
    checkpoint.save(LocalFolder(folder / "checkpoint"), *trained, progress_at(3))
    (folder / f"drawn-{rank}.json").write_text(json.dumps(drawn()))


def drawn_after_resume(rank: int, world_size: int, folder: Path, saved_in: Path) -> None:
    seed_all(99)
    checkpoint.load(LocalFolder(saved_in / "checkpoint"), *one_weight())
    (folder / f"drawn-{rank}.json").write_text(json.dumps(drawn()))


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def drawn() -> list[float]:
    return [random.random(), float(np.random.rand()), float(torch.rand(1))]


def whole_state(rank: int, world_size: int, folder: Path, come_from: str | None, placement: str, save: bool) -> None:
    """Take up a checkpoint of other ranks, tell the whole of model and optimizer, and leave one of these ranks."""
    module, optimizer, dataset = _built(PLACEMENTS[placement](world_size))
    if come_from is None:
        ranks.train(module, optimizer, dataset, range(1, 3))
    else:
        told = checkpoint.load(open_folder(come_from), module, optimizer)
        assert told == progress_at(2)
    if save:
        checkpoint.save(step_folder(LocalFolder(folder), 2), module, optimizer, progress_at(2))
    state = checkpoint.state_of(module, optimizer)
    whole = {name: _whole(tensor) for name, tensor in state["model"].items()}
    for name, moments in state["optimizer"]["state"].items():
        whole |= {f"{name} {moment}": _whole(tensor) for moment, tensor in moments.items()}
    if rank == 0:
        torch.save(whole, folder / "whole.pt")


def _built(mesh: DeviceMesh) -> tuple[torch.nn.Module, torch.optim.Optimizer, Any]:
    module, _, dataset = ranks.build(sharded=False)
    for layer in module.model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return module, ShardedAdamW(decay_groups(module, 0.1, decay_embeddings=False), lr=1e-2), dataset


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def resumed_with_the_run_s_own_step(rank: int, world_size: int, folder: Path, mode: str) -> None:
    """Loss, optimizer and step as a run has them: go on, and take up on the way, each to the end."""
    module, optimizer, step = _own_step(mode)
    losses = [_own_loss(step, number) for number in range(1, 4)]
    with Checkpointer(LocalFolder(folder / "checkpoints"), module, optimizer) as saver:
        saver.save(progress_at(3))
        losses += [_own_loss(step, number) for number in range(4, 7)]
    again, again_optimizer, again_step = _own_step(mode)
    checkpoint.load(step_folder(LocalFolder(folder / "checkpoints"), 3), again, again_optimizer)
    resumed = [_own_loss(again_step, number) for number in range(4, 7)]
    if rank == 0:
        (folder / "told.json").write_text(json.dumps({"straight": losses, "resumed": resumed}))


def _own_step(mode: str) -> tuple[torch.nn.Module, torch.optim.Optimizer, TrainStep]:
    module = CausalLoss(load_model(config(seq_len=32)).module)
    sharding = Sharding(mode=mode)
    shard(module, ranks.CPU, sharding, node_of_rank=[0, 0, 1, 1])
    optimizer = ShardedAdamW(decay_groups(module, 0.1, decay_embeddings=False), lr=1e-2)
    return module, optimizer, TrainStep(module, optimizer, sharding)


def _own_loss(step: TrainStep, number: int) -> tuple[float, float]:
    generator = torch.Generator().manual_seed(100 * number + dist.get_rank())
    rows = torch.randint(0, 259, (4, 33), generator=generator)
    figures = step([next_token_batch(part) for part in rows.split(2)]).read()
    return figures.loss, figures.gradient_norm


def taken_up_with_other_decays(rank: int, world_size: int, folder: Path) -> None:
    """Saved with each of two ways to decay, and taken up with the other one."""
    told = []
    for number, (saved, asked) in enumerate([((0.1, False), (0.5, True)), ((0.1, True), (0.0, False))]):
        module, optimizer, dataset = _decaying(*saved)
        ranks.train(module, optimizer, dataset, range(1, 3))
        checkpoint.save(step_folder(LocalFolder(folder), number), module, optimizer, progress_at(2))
        again, again_optimizer, _ = _decaying(*asked)
        said: list[str] = []
        checkpoint.load(step_folder(LocalFolder(folder), number), again, again_optimizer, say=said.append)
        moments = [
            {name: state["exp_avg"] for name, state in checkpoint.state_of(*trained)["optimizer"]["state"].items()}
            for trained in ((module, optimizer), (again, again_optimizer))
        ]
        equal = all(torch.equal(_whole(moments[0][name]), _whole(moments[1][name])) for name in moments[0])
        groups, fresh = (
            [(group["weight_decay"], len(group["params"])) for group in made.param_groups]
            for made in (again_optimizer, _decaying(*asked)[1])
        )
        told.append({"said": said, "groups": groups, "fresh": fresh, "equal": equal})
    if rank == 0:
        (folder / "told.json").write_text(json.dumps(told))


def _decaying(weight_decay: float, decay_embeddings: bool) -> tuple[CausalLoss, ShardedAdamW, Any]:
    module, _, dataset = ranks.build(sharded=True)
    groups = decay_groups(module, weight_decay, decay_embeddings=decay_embeddings)
    return module, ShardedAdamW(groups, lr=1e-2), dataset


class PartlyUsed(torch.nn.Module):  # type: ignore[misc]
    """Of its two units and the root's own weight the loss knows one unit."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = torch.nn.Linear(4, 6, bias=False), torch.nn.Linear(4, 6, bias=False)
        self.spare = torch.nn.Parameter(torch.ones(4, 4))
        for part in (self.used, self.idle, self):
            fully_shard(part)

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.used(inputs)


def partly_trained_and_taken_up(rank: int, world_size: int, folder: Path) -> None:
    module = PartlyUsed()
    optimizer = ShardedAdamW(decay_groups(module, 0.1, decay_embeddings=False), lr=0.1)
    module(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    checkpoint.save(LocalFolder(folder / "checkpoint"), module, optimizer, progress_at(1))
    trained = evidence.must_move(module, optimizer, Sharding(), [0, 1], steps=1)
    other = PartlyUsed()
    other_optimizer = ShardedAdamW(decay_groups(other, 0.1, decay_embeddings=False), lr=0.1)
    checkpoint.load(LocalFolder(folder / "checkpoint"), other, other_optimizer)
    equal = all(
        torch.equal(_whole(one), _whole(two)) for one, two in zip(module.parameters(), other.parameters(), strict=True)
    )
    if rank == 0:
        told = {
            "equal": equal,
            "moves": trained["must_move"],
            "moves_again": evidence.must_move(other, other_optimizer, Sharding(), [0, 1], steps=1)["must_move"],
        }
        (folder / "told.json").write_text(json.dumps(told))


def taken_up_by_another_model(rank: int, world_size: int, folder: Path) -> None:
    checkpoint.save(LocalFolder(folder / "checkpoint"), *one_weight(), progress_at(1))
    told = []
    for which in (checkpoint.OWN, "--resume_from:"):
        module = PartlyUsed()
        try:
            checkpoint.load(
                LocalFolder(folder / "checkpoint"), module, torch.optim.AdamW(module.parameters()), which=which
            )
        except TrainingError as error:
            told.append(str(error))
    if rank == 0:
        (folder / "told.json").write_text(json.dumps(told))


PLACEMENTS: dict[str, Callable[[int], DeviceMesh]] = {
    "in order": lambda world_size: init_device_mesh("cpu", (world_size,)),
    "interleaved": lambda world_size: DeviceMesh("cpu", [[0, 2], [1, 3]], mesh_dim_names=("across", "in")),
}
