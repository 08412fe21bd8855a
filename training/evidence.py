"""What a rank can testify about itself, kept as one file a rank and attempt."""

import hashlib
import importlib.metadata
import os
import platform
import resource
import socket
from typing import Any

import ray
import torch
import torch.distributed as dist

from training import packages
from training.storage import Folder, storage_errors
from training.worker_setup import node_directory

ENVIRONMENT_PREFIXES = ("NCCL_", "FI_", "GLOO_")


def testify(
    *,
    attempt: int,
    device: torch.device,
    job_environment: tuple[str, ...],
    requirements: tuple[str, ...],
    transport_lines: list[str],
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
        "versions": _versions(device),
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(ENVIRONMENT_PREFIXES) or name == "RAY_DEDUP_LOGS"
        },
        "job_environment": sorted(name for name in job_environment if name in os.environ),
        "packages": packages.installed(requirements, node_directory()),
        "peak_memory_bytes": peak_memory_bytes(device),
        "transport_lines": {
            "count": len(transport_lines),
            "sha256": hashlib.sha256("\n".join(transport_lines).encode()).hexdigest(),
        },
    }


def write_testimony(folder: Folder, testimony: dict[str, Any]) -> None:
    with storage_errors(folder):
        folder.write_json(f"rank-{testimony['rank']}.json", testimony)


def peak_memory_bytes(device: torch.device) -> int:
    """Allocated on the GPU, or resident of the process where there is none."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()


def _versions(device: torch.device) -> dict[str, str]:
    versions = {
        "python": platform.python_version(),
        "ray": ray.__version__,
        "torch": str(torch.__version__),
        "transformers": importlib.metadata.version("transformers"),
    }
    if device.type == "cuda":
        versions["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return versions
