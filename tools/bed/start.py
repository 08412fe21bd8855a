"""Starting a bed in a directory of its own, cleared of what an earlier one left there."""

import fcntl
import json
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tools.bed import leftovers, ports, programs
from tools.bed.bed import Bed, Devices
from tools.bed.control_plane import ControlPlane
from tools.bed.errors import BedError
from tools.bed.nodes import DEFAULT_NODES, NodeSpec
from tools.bed.processes import end_recorded


def start_bed(
    directory: Path | str,
    *,
    nodes: Sequence[NodeSpec] = DEFAULT_NODES,
    operator: bool = True,
    devices: Devices = "published",
) -> Bed:
    """Builds what is missing and starts a bed whose files lie in `directory`; returns when it can be used.

    `operator` runs the KubeRay operator. `devices` "published" gives nodes their GPUs and EFA interfaces at once, "by
    plugin" leaves that to the pods of device plugins. What a killed bed left in `directory` is cleared first.
    Raises BedError when the directory is in use or a daemon fails, SetupError when a build does.
    """
    folder = Path(directory).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_foreign(folder)
    built = programs.build()
    lock = _own(folder)
    try:
        _clear(folder)
        api_port, etcd_port, peer_port = ports.choose(3)
        plane = ControlPlane(
            folder=folder,
            programs=built,
            bed_id=secrets.token_hex(3),
            api_port=api_port,
            etcd_port=etcd_port,
            peer_port=peer_port,
        )
        (folder / "bed.json").write_text(json.dumps({"id": plane.bed_id, "server": plane.server}))
        plane.write_files()
        bed = Bed(folder, plane, lock, devices)
    except BaseException:
        lock.close()
        raise
    try:
        bed.start(nodes, operator)
    except BaseException:
        bed.stop()
        raise
    return bed


def _refuse_foreign(folder: Path) -> None:
    """A bed clears its directory first, so it takes no directory that holds anything but a bed."""
    found = sorted(item.name for item in folder.iterdir() if item.name != "lock")
    if found and "bed.json" not in found:
        raise BedError(f"{folder} holds {found[0]} and is no bed's directory; take a new or an empty one")


def _own(folder: Path) -> IO[str]:
    lock = (folder / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise BedError(f"another bed runs in {folder}; stop it or take another directory") from None
    return lock


def _clear(folder: Path) -> None:
    """Ends and removes what an earlier bed left in `folder`."""
    end_recorded(folder)
    if earlier := leftovers.bed_id(folder):
        leftovers.clear(folder, earlier)
    for item in folder.iterdir():
        if item.name == "lock":
            continue
        if item.is_dir() and not item.is_symlink():
            shutil.rmtree(item)
        else:
            item.unlink()
