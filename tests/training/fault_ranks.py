"""Run by several processes at once: the smallest model that has shards, over storage that stops in the middle."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from tests.training.faulty_folder import Fault, FaultyFolder
from training import checkpoint
from training.checkpoint_files import Progress, newest_complete, step_of
from training.checkpointer import Checkpointer, Failed
from training.storage import LocalFolder, open_folder

Trained = tuple[torch.nn.Module, torch.optim.Optimizer]


def progress_at(step: int) -> Progress:
    return Progress(step=step, losses=[(step, 0.5)], eval_before=None, data={"row": 7 * step})


def one_weight() -> Trained:
    """The smallest model that has shards, with an optimizer that has a state: few files, few writes."""
    module = torch.nn.Linear(4, 6, bias=False)
    fully_shard(module)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
    module(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return module, optimizer


def fill(trained: Trained, value: float) -> None:
    with torch.no_grad():
        for parameter in trained[0].parameters():
            parameter.fill_(value)
            trained[1].state[parameter]["exp_avg"].fill_(value / 8)


def held(trained: Trained) -> tuple[float, float]:
    """The one value of all weights, and of all first moments, over all ranks."""
    (weight,) = trained[0].parameters()
    values = []
    for tensor in (weight, trained[1].state[weight]["exp_avg"]):
        assert isinstance(tensor, DTensor)
        whole = tensor.detach().full_tensor()
        assert bool((whole == whole[0, 0]).all()), whole
        values.append(float(whole[0, 0]))
    return values[0], values[1]


def stopped_everywhere(rank: int, world_size: int, folder: Path, location: str, chunks: bool) -> None:
    """Save again and again, stopping one rank's storage at its first operation, then at its second, to the last one.

    After each fault a new model takes up what there is, then the save is done again over what the fault left.
    """
    place = open_folder(location)
    trained, other = one_weight(), one_weight()
    fault = Fault(chunks=chunks)
    faulty = Checkpointer(FaultyFolder(place, fault), *trained, mode="sync", keep=1, files={"config.json": b"{}"})
    sound = Checkpointer(place, *trained, mode="sync", keep=1, files={"config.json": b"{}"})

    def taken_up() -> int:
        newest, _ = newest_complete(place)
        assert newest is not None, f"nothing is left after {fault.operations}"
        progress = checkpoint.load(newest, *other)
        assert held(other) == (progress.step, progress.step / 8), f"after {fault.operations}"
        assert progress == progress_at(progress.step) and step_of(newest) == progress.step
        dist.barrier()  # the next save deletes what another rank may still read
        return progress.step

    step = 1
    fill(trained, step)
    sound.save(progress_at(step))
    told: list[list[Any]] = []
    for stopped_rank in range(world_size):
        at = 0
        while True:
            at += 1
            step += 1
            fill(trained, step)
            fault.at, fault.operations = (at if rank == stopped_rank else None), []
            refused = ""
            try:
                faulty.save(progress_at(step))
                faulty.finish()
            except Exception as error:
                refused = f"{type(error).__name__}: {error}"
            met: list[Any] = [fault.met, fault.operations[-1:]]
            dist.broadcast_object_list(met, src=stopped_rank)
            if not met[0]:
                assert refused == ""
                break
            assert refused.startswith("TrainingError: --storage_path: checkpoint "), refused
            found = taken_up()
            told.append([stopped_rank, met[1][0], found == step])
            assert found in (step, step - 1)
            sound.save(progress_at(step))
            assert taken_up() == step
    if rank == 0:
        (folder / "told.json").write_text(json.dumps(told))


def killed_while_writing(rank: int, world_size: int, folder: Path, stopped_rank: int, at: int) -> None:
    """Training goes on when one rank is killed in the middle of its own writing."""
    place = LocalFolder(folder / "checkpoints")
    trained = one_weight()
    with Checkpointer(place, *trained, mode="sync", files={}) as first:
        fill(trained, 1)
        first.save(progress_at(1))
    fault = Fault(at=at if rank == stopped_rank else None, kill=True)
    with Checkpointer(FaultyFolder(place, fault), *trained, files={}) as second:
        fill(trained, 2)
        second.save(progress_at(2))
        try:
            for _ in range(10_000):
                dist.all_reduce(torch.ones(1))
                time.sleep(0.001)
        except RuntimeError:
            # The other rank is gone, and is to be the first of which the test hears: that ends this one too.
            time.sleep(60)
            raise


def take_up(rank: int, world_size: int, folder: Path) -> None:
    newest, passed_over = newest_complete(LocalFolder(folder / "checkpoints"))
    assert newest is not None
    trained = one_weight()
    progress = checkpoint.load(newest, *trained)
    values = held(trained)
    if rank == 0:
        told = {"step": progress.step, "held": values, "passed_over": passed_over}
        (folder / "told.json").write_text(json.dumps(told))


def refused_in_the_background(
    rank: int, world_size: int, folder: Path, stopped_rank: int, mode: str, then: str
) -> None:
    """One rank's storage refuses its shard. `then` the run ends, saves again (end, save), or saves to storage that is
    well again (well)."""
    place, heard = LocalFolder(folder / "checkpoints"), threading.Event()
    trained = one_weight()
    fault = Fault(at=1 if rank == stopped_rank else None)
    failures: list[Any] = []

    def failed(failure: Failed) -> None:
        failures.append([failure.step, str(failure.error), failure.ends])
        heard.set()

    saver = Checkpointer(FaultyFolder(place, fault), *trained, mode=mode, files={}, failed=failed)
    fill(trained, 1)
    told: dict[str, Any] = {"first": str(saver.save(progress_at(1)))}
    told["heard"] = heard.wait(20)  # though nobody asks
    if then == "well":
        fault.at = None
    fill(trained, 2)
    try:
        if then != "end":
            saved = saver.save(progress_at(2))
            told["next"] = saved and saved.step
        told["last"] = str(saver.finish())
    except Exception as error:
        told["raised"] = f"{type(error).__name__}: {error}"
        told["outage"] = isinstance(error.__cause__, OSError)
    dist.barrier()
    newest, _ = newest_complete(place)
    if newest is not None:
        told["newest"] = [checkpoint.load(newest, *trained).step, *held(trained)]
    (folder / f"told-{rank}.json").write_text(json.dumps(told | {"failures": failures, "count": saver.count}))
