"""What a bed's pods leave when their agent is killed: network namespaces, known by the bed's id, and processes."""

import contextlib
import json
import subprocess
from pathlib import Path

import psutil


def network(bed_id: str) -> str:
    """The bed's own namespace, with the pods' bridge; each pod's name has a dot and a number behind it."""
    return f"rtebed-{bed_id}"


def namespaces(bed_id: str) -> list[str]:
    """The network namespaces of a bed, by name."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in listed.splitlines() if line.strip()]
    return [name for name in names if name.partition(".")[0] == network(bed_id)]


def clear(folder: Path, bed_id: str) -> None:
    """Ends the processes in the bed's network namespaces, then removes those. Nothing else is touched."""
    pids: set[int] = set()
    for name in namespaces(bed_id):
        listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
        pids.update(int(pid) for pid in listed.split())
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
    for name in namespaces(bed_id):
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    _unmount(folder)


def _unmount(folder: Path) -> None:
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    inside = [place for place in mounted if place.startswith(f"{folder}/")]
    for place in sorted(inside, key=len, reverse=True):
        subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)


def bed_id(folder: Path) -> str | None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        return str(json.loads((folder / "bed.json").read_text())["id"])
    return None
