"""A checkpoint counts only once its completion marker is written. No torch here: the driver reads them too.

<checkpoints>/step-000020/   *.distcp and .metadata   every rank's shards of model and optimizer
                             progress.json            what the run knows besides tensors
                             model/                   what a model directory has besides weights
                             COMPLETE.json            written last: step, world size, the files and their sizes

Whatever ends a process between any two of its operations, the newest whole checkpoint stays whole until a newer one is:
the marker comes last when a checkpoint is made, and goes first when one is deleted.
"""

import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from training.errors import TrainingError
from training.storage import Folder, open_folder

MARKER = "COMPLETE.json"
PROGRESS = "progress.json"
PREFIX = "step-"
SEEN_WITHIN_S = 90.0
"""How long a file that another node has written may stay unseen here: NFS caches a directory's names for a minute."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a run knows at a checkpoint: (step, loss) from the first step on, and its evaluation before training.

    The step is also the scheduler's whole state.
    """

    step: int
    losses: list[tuple[int, float]]
    eval_before: dict[str, float] | None
    data: dict[str, Any] | None = None
    """Where the data stands, as JSON can say it and as the data module alone understands it; the same for all ranks."""


def step_folder(checkpoints: Folder, step: int) -> Folder:
    return checkpoints / f"{PREFIX}{step:06d}"


def write_marker(folder: Folder, step: int, world_size: int, expected: Mapping[str, int] | None = None) -> None:
    """Raises OSError where a file of `expected`, which gives the least sizes, stays out of this node's sight."""
    files = seen_whole(folder, expected or {})
    files.pop(MARKER, None)
    folder.write_json(MARKER, {"step": step, "world_size": world_size, "files": files})


def seen_whole(folder: Folder, expected: Mapping[str, int]) -> dict[str, int]:
    """The sizes of all files in it, once those of `expected` are there with at least theirs, as others wrote them.

    Raises OSError naming those that stay out of this node's sight.
    """
    give_up = time.monotonic() + SEEN_WITHIN_S
    while short := _unseen(files := folder.sizes(), expected):
        if time.monotonic() > give_up:
            raise OSError(
                f"node {socket.gethostname()} of rank 0 does not see whole what other ranks wrote there: "
                f"{', '.join(short)}: name storage that all nodes share"
            )
        time.sleep(0.5)
    return files


def _unseen(sizes: Mapping[str, int], expected: Mapping[str, int]) -> list[str]:
    return sorted(name for name, size in expected.items() if sizes.get(name, -1) < size)


def why_incomplete(folder: Folder) -> str | None:
    """None for a checkpoint that is whole. Raises OSError where storage does not say: an outage is no damage."""
    try:
        marker = folder.read_json(MARKER)
    except (FileNotFoundError, NotADirectoryError):
        return f"it has no {MARKER}"
    except ValueError:
        return f"its {MARKER} is damaged"
    files = marker.get("files") if isinstance(marker, dict) else None
    if not isinstance(files, dict) or not isinstance(marker.get("step"), int):
        return f"its {MARKER} is not one"
    sizes = folder.sizes()
    for name, size in files.items():
        if name not in sizes:
            return f"{name} is missing"
        if sizes[name] != size:
            return f"{name} has {sizes[name]} bytes instead of {size}"
    return None


def newest_complete(checkpoints: Folder, *, below: int | None = None) -> tuple[Folder | None, list[str]]:
    """The newest whole checkpoint, and a line for each newer one that had to be passed over; only of steps `below`."""
    passed_over: list[str] = []
    for folder in _newest_first(checkpoints):
        if below is not None and _named_step(folder.name) >= below:
            continue
        reason = why_incomplete(folder)
        if reason is None:
            return folder, passed_over
        passed_over.append(f"checkpoint {folder.name} is incomplete and ignored: {reason}")
    return None, passed_over


def require_complete(location: str, argument: str = "--resume_from") -> Folder:
    """The checkpoint a user names. Raises TrainingError naming the argument and the location."""
    folder = open_folder(location)
    try:
        if not folder.exists():
            raise TrainingError(f"{argument} {location}: no such directory")
        reason = why_incomplete(folder)
    except OSError as error:
        raise TrainingError(f"{argument} {location}: cannot be read: {error}") from error
    if reason is not None:
        raise TrainingError(f"{argument} {location}: not a complete checkpoint: {reason}")
    return folder


def step_of(folder: Folder) -> int:
    return int(folder.read_json(MARKER)["step"])


def ranks_of(folder: Folder) -> int:
    """How many ranks wrote it."""
    return int(folder.read_json(MARKER)["world_size"])


def discard(folder: Folder) -> None:
    """Delete a checkpoint, or what there is of one."""
    folder.delete(MARKER)
    folder.remove()


def prune(checkpoints: Folder, keep: int, protected: Folder | None = None) -> list[str]:
    """Keep the newest `keep` whole checkpoints, at least 1, and `protected`. Returns the names of what was deleted.

    What lies between the kept ones and is not whole goes too: nothing is being written that is older than the newest.
    """
    kept, deleted = 0, []
    for folder in _newest_first(checkpoints):
        if protected is not None and folder.identity == protected.identity:
            continue
        whole = kept < keep and why_incomplete(folder) is None
        if whole:
            kept += 1
        elif kept > 0:
            discard(folder)
            deleted.append(folder.name)
    return deleted


def _newest_first(checkpoints: Folder) -> Iterator[Folder]:
    steps = [name for name in checkpoints.names() if name.startswith(PREFIX) and name.removeprefix(PREFIX).isdigit()]
    for name in sorted(steps, key=_named_step, reverse=True):
        yield checkpoints / name


def _named_step(name: str) -> int:
    return int(name.removeprefix(PREFIX))


def read_progress(folder: Folder) -> Progress:
    stored = folder.read_json(PROGRESS)
    losses = [(int(step), float(loss)) for step, loss in stored["losses"]]
    return Progress(step=stored["step"], losses=losses, eval_before=stored["eval_before"], data=stored["data"])


def write_progress(folder: Folder, progress: Progress) -> None:
    folder.write_json(PROGRESS, vars(progress))
