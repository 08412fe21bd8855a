"""First on the PYTHONPATH of a job's processes: ranks on gloo tell of themselves what ranks on NCCL and EFA would.

The training code is the real one. What it meets is replayed, as far as it is of NCCL, of the host or of a device: the
backend's name, a host name for each Ray node, each rank's NCCL log (tests/support/nccl_run.py, beside this file where
it runs), written bit by bit into the file that NCCL_DEBUG_FILE names, and EFA devices whose counters grow with steps.

REPLAY is efa, socket (NCCL of rank 2 found no plugin), silent (NCCL of rank 1 wrote nothing), idle (the devices move
next to nothing), failed (the first collective fails on rank 0). REPLAY_FOLDER holds the devices.
"""

import importlib.abc
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

WHAT = os.environ.get("REPLAY", "")
STEP_BYTES, IDLE_BYTES = 4_000_000, 900
_counts_for_its_host = False


class AfterImport(importlib.abc.MetaPathFinder):
    """Gives each of the modules named to its patch, once it has been imported."""

    def __init__(self, patches: dict[str, Callable[[Any], None]]) -> None:
        self._patches = patches

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        patch = self._patches.pop(fullname, None)
        spec = importlib.util.find_spec(fullname) if patch else None
        if patch is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_patch(module: types.ModuleType) -> None:
            execute(module)
            patch(module)

        spec.loader.exec_module = execute_and_patch  # type: ignore[method-assign]
        return spec


def host() -> str:
    import ray

    return f"node-{ray.get_runtime_context().get_node_id()[:8]}.replay.internal"


def name_host(module: Any) -> None:
    module.socket = types.SimpleNamespace(gethostname=host)


def pose_as_nccl(train: Any) -> None:
    real = train.handed_back

    def handed_back(rank: int, backend: str) -> Any:
        import torch.distributed as dist

        log = nccl_log(rank)
        next(log)
        barrier, broadcast = dist.barrier, dist.broadcast_object_list

        def barrier_that_nccl_tells_of() -> None:
            next(log)
            barrier()

        def failing_broadcast(*arguments: Any, **more: Any) -> None:
            if rank == 0:
                raise RuntimeError("NCCL error: ncclSystemError")
            broadcast(*arguments, **more)

        dist.get_backend = lambda: "nccl"
        dist.barrier = barrier_that_nccl_tells_of
        if WHAT == "failed":
            dist.broadcast_object_list = failing_broadcast
        return real(rank, "nccl")

    train.handed_back = handed_back


def nccl_log(rank: int) -> Iterator[None]:
    """Writes some lines of the rank's log each time it is asked, the last of them in the barrier after the steps."""
    global _counts_for_its_host
    import torch.distributed as dist
    from nccl_run import Process, Run  # type: ignore[import-not-found]

    from training import nccl_lines

    ranks: list[tuple[str, int]] = [("", 0)] * dist.get_world_size()
    dist.all_gather_object(ranks, (host().partition(".")[0], os.getpid()))
    _counts_for_its_host = ranks[rank][0] not in [name for name, _ in ranks[:rank]]
    run = Run(hosts=tuple(dict.fromkeys(name for name, _ in ranks)))
    if WHAT == "failed":
        lines = [*run.opening(rank)[:-1], "WARN plugin/net.cc:373 NCCL WARN Failed to initialize any NET plugin"]
        process = Process(host=ranks[rank][0], pid=os.getpid(), device=rank % 2, lines=tuple(lines))
    else:
        if WHAT == "socket" and rank == 2:
            run = run.but(network="missing")
        process = replace(run.processes()[rank], pid=os.getpid())
    lines = process.text()[: None if WHAT == "failed" else -1]  # "Destroy COMPLETE" comes after training
    portion = -(-len(lines) // 5)
    if WHAT == "silent" and rank == 1:
        lines = []
    with nccl_lines.expand(os.environ[nccl_lines.VARIABLE]).open("w") as file:
        while True:
            now, lines = (lines, []) if WHAT == "failed" else (lines[:portion], lines[portion:])
            for line in now:
                for piece in (line[:40], line[40:], "\n"):
                    file.write(piece)
                    file.flush()
            yield


def plug_in(efa_devices: Any) -> None:
    folder = Path(os.environ["REPLAY_FOLDER"], host())
    efa_devices.CLASS, efa_devices.NODES = folder / "sys", folder / "dev"
    device = efa_devices.CLASS / "rdmap0s31"
    for directory in (device / "ports/1/hw_counters", device / "device/infiniband_verbs/uverbs0", efa_devices.NODES):
        directory.mkdir(parents=True, exist_ok=True)
    (device / "device/vendor").write_text("0x1d0f\n")
    (efa_devices.NODES / "uverbs0").touch()
    for counter in ("tx_bytes", "rx_bytes"):
        (device / "ports/1/hw_counters" / counter).write_text("123456789\n")


def move_bytes(step: Any) -> None:
    from training import efa_devices

    real = step.TrainStep.__call__

    def call(*arguments: Any) -> Any:
        figures = real(*arguments)
        if _counts_for_its_host:
            for counter in efa_devices.CLASS.glob("*/ports/1/hw_counters/*"):
                more = IDLE_BYTES if WHAT == "idle" else STEP_BYTES
                counter.write_text(f"{int(counter.read_text()) + more}\n")
        return figures

    step.TrainStep.__call__ = call


if WHAT:
    patches = {
        "training.nccl_lines": name_host,
        "training.evidence": name_host,
        "training.train": pose_as_nccl,
        "training.efa_devices": plug_in,
        "training.step": move_bytes,
    }
    sys.meta_path.insert(0, AfterImport(patches))
