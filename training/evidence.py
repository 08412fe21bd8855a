"""What a rank can testify about itself, kept as one file a rank and attempt."""

import ctypes
import importlib.metadata
import itertools
import os
import platform
import re
import resource
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from training import efa_devices, packages, traffic
from training.nccl_lines import NcclLines
from training.optimizer import ShardedAdamW
from training.peer_memory import shared_bytes
from training.sharding import MIXED, Sharding
from training.storage import Folder, storage_errors
from training.topology import HSDP
from training.worker_setup import node_directory, secret_names, working_directory

ENVIRONMENT_PREFIXES = ("NCCL_", "FI_", "GLOO_")
NVIDIA_DRIVER, EFA_DRIVER = Path("/proc/driver/nvidia/version"), Path("/sys/module/efa/version")


def testify(
    *,
    attempt: int,
    device: torch.device,
    job_environment: tuple[str, ...],
    requirements: tuple[str, ...],
    lines: NcclLines,
) -> dict[str, Any]:
    """Called by every rank together: node and local ranks follow Ray nodes, of which one address may hold several.

    Backend and device are what torch uses and versions what runs, not what the settings say. Of the job's own
    environment only the names this process has are told: the values may be secret.
    """
    node_id = ray.get_runtime_context().get_node_id()
    node_ids: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(node_ids, node_id)
    return {
        "rank": dist.get_rank(),
        "local_rank": node_ids[: dist.get_rank()].count(node_id),
        "node_rank": list(dict.fromkeys(node_ids)).index(node_id),
        "node_id": node_id,
        "node_ip": ray.util.get_node_ip_address(),
        "hostname": socket.gethostname(),
        "pid": os.getpid(),
        "attempt": attempt,
        "backend": dist.get_backend(),
        "device": str(device),
        "device_name": _device_name(device),
        "job_environment": sorted(name for name in job_environment if name in os.environ),
        "packages": packages.installed(requirements, node_directory()),
        **so_far(device, lines),
    }


def so_far(device: torch.device, lines: NcclLines) -> dict[str, Any]:
    """The part of a testimony that grows while a rank runs."""
    secret = secret_names(working_directory())
    return {
        "versions": _versions(device) | lines.versions,
        "environment": {
            name: value
            for name, value in sorted(_environment().items())
            if (name.startswith(ENVIRONMENT_PREFIXES) or name == "RAY_DEDUP_LOGS") and name not in secret
        },
        "peak_memory_bytes": peak_memory_bytes(device),
        "transport_lines": lines.testimony(),
    }


def write_testimony(folder: Folder, testimony: dict[str, Any]) -> None:
    with storage_errors(folder):
        folder.write_json(f"rank-{testimony['rank']}.json", testimony)


def read_devices(local_rank: int) -> efa_devices.Readings:
    """The EFA counters of the node, read by one of its ranks. Called by every rank together: none is within a step."""
    dist.barrier()
    readings = efa_devices.read() if local_rank == 0 else {}
    dist.barrier()
    return readings


def must_move(
    root: torch.nn.Module,
    optimizer: ShardedAdamW,
    options: Sharding,
    nodes: Sequence[int],
    *,
    steps: int,
    micro_batches: int = 1,
) -> dict[str, Any]:
    """`must_move` with the least bytes of so many steps for this rank's node; {} where all ranks are on one."""
    if len(set(nodes)) == 1:
        return {}
    plan = traffic.Plan(
        replicated=options.mode == HSDP,
        micro_batches=micro_batches,
        kept_gathered=options.keep_gathered,
        reduced_once=not options.reduce_each_micro_batch,
    )
    return {"must_move": traffic.least(_units(root, optimizer, options), nodes, nodes[dist.get_rank()], steps, plan)}


def _units(root: torch.nn.Module, optimizer: ShardedAdamW, options: Sharding) -> list[traffic.Unit]:
    """As fully_shard has grouped them: each parameter belongs to the innermost module that is sharded.

    Only those of which the optimizer has updated a parameter: another may never have run.
    """
    mixed, trained = options.precision == MIXED, optimizer.trained()
    units: list[traffic.Unit] = []
    seen: set[torch.nn.Parameter] = set()
    for part in reversed([part for part in root.modules() if isinstance(part, FSDPModule)]):
        own = [parameter for parameter in part.parameters() if parameter not in seen]
        seen.update(own)
        if not trained.isdisjoint(own):
            stored = int(own[0].dtype.itemsize)
            units.append(
                traffic.Unit(
                    parameters=tuple(
                        traffic.Parameter(rows=one.shape[0], row=one.shape[1:].numel(), trained=one in trained)
                        for one in own
                    ),
                    gathered_bytes=2 if mixed else stored,
                    reduced_bytes=stored,  # in float32 between nodes, unless weights are bfloat16 as well
                    reshards=part is not root and not options.keep_gathered,
                )
            )
    return units


def peak_memory_bytes(device: torch.device) -> int:
    """Allocated on the GPU, or resident of the process where there is none."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device)) + shared_bytes(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()


def _environment() -> dict[str, str]:
    """As C sees it: os.environ misses what libraries set by themselves, as NCCL does from /etc/nccl.conf."""
    entries = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    told = itertools.takewhile(bool, (entries[index] for index in itertools.count()))
    return dict(entry.decode(errors="replace").partition("=")[::2] for entry in told)


def _versions(device: torch.device) -> dict[str, str]:
    versions = {
        "python": platform.python_version(),
        "ray": ray.__version__,
        "torch": str(torch.__version__),
        "transformers": importlib.metadata.version("transformers"),
    }
    if device.type == "cuda":
        versions["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
        versions["cuda"] = str(torch.version.cuda)
    if told := re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)\s", _text(NVIDIA_DRIVER)):
        versions["nvidia_driver"] = told[1]
    if version := _text(EFA_DRIVER).strip():
        versions["efa_driver"] = version
    return versions


def _text(file: Path) -> str:
    """Empty where there is none."""
    try:
        return file.read_text()
    except OSError:
        return ""
