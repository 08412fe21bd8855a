"""How much memory this process could still take."""

import contextlib
import re
from pathlib import Path

import torch

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def free_bytes(device: torch.device) -> int:
    """Of the GPU, or of the host within the limit of its container (cgroup v2)."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return free_of_host(MEMINFO.read_text(), CGROUP)


def free_of_host(meminfo: str, cgroup: Path) -> int:
    """`meminfo` as /proc/meminfo has it."""
    available = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    free = int(available[1]) * 1024 if available else 0
    # No cgroup v2 here, or one without a limit, which says "max".
    with contextlib.suppress(OSError, ValueError):
        limit = int((cgroup / "memory.max").read_text())
        used = int((cgroup / "memory.current").read_text())
        # The kernel gives back the page cache, which it counts as used.
        cache = re.findall(r"^(?:in)?active_file (\d+)", (cgroup / "memory.stat").read_text(), re.MULTILINE)
        free = min(free, limit - used + sum(map(int, cache)))
    return max(0, free)
