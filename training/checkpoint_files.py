"""A checkpoint counts only once its completion marker is written. No torch here: the driver reads them too.

<checkpoints>/step-000020/   *.distcp and .metadata   every rank's shards of model and optimizer
                             progress.json            what the run knows besides tensors
                             COMPLETE.json            written last: step, world size, the files and their sizes
"""

from collections.abc import Iterator
from dataclasses import dataclass

from training.errors import TrainingError
from training.storage import Folder, open_folder

MARKER = "COMPLETE.json"
PROGRESS = "progress.json"
PREFIX = "step-"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a run knows at a checkpoint: (step, loss) from the first step on, and its evaluation before training."""

    step: int
    losses: list[tuple[int, float]]
    eval_before: dict[str, float] | None


def step_folder(checkpoints: Folder, step: int) -> Folder:
    return checkpoints / f"{PREFIX}{step:06d}"


def write_marker(folder: Folder, step: int, world_size: int) -> None:
    files = {name: size for name, size in folder.sizes().items() if name != MARKER}
    folder.write_json(MARKER, {"step": step, "world_size": world_size, "files": files})


def why_incomplete(folder: Folder) -> str | None:
    """None for a checkpoint that is whole."""
    try:
        marker = folder.read_json(MARKER)
    except FileNotFoundError:
        return f"it has no {MARKER}"
    except ValueError:
        return f"its {MARKER} is damaged"
    except OSError as error:
        return f"its {MARKER} cannot be read: {error}"
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


def newest_complete(checkpoints: Folder) -> tuple[Folder | None, list[str]]:
    """The newest whole checkpoint, and a line for each newer one that had to be passed over."""
    passed_over: list[str] = []
    for folder in _newest_first(checkpoints):
        reason = why_incomplete(folder)
        if reason is None:
            return folder, passed_over
        passed_over.append(f"checkpoint {folder.name} is incomplete and ignored: {reason}")
    return None, passed_over


def require_complete(location: str) -> Folder:
    """The checkpoint a user names. Raises TrainingError naming --resume_from and the location."""
    folder = open_folder(location)
    try:
        if not folder.exists():
            raise TrainingError(f"--resume_from {location}: no such directory")
        reason = why_incomplete(folder)
    except OSError as error:
        raise TrainingError(f"--resume_from {location}: cannot be read: {error}") from error
    if reason is not None:
        raise TrainingError(f"--resume_from {location}: not a complete checkpoint: {reason}")
    return folder


def step_of(folder: Folder) -> int:
    return int(folder.read_json(MARKER)["step"])


def _newest_first(checkpoints: Folder) -> Iterator[Folder]:
    steps = [name for name in checkpoints.names() if name.startswith(PREFIX) and name.removeprefix(PREFIX).isdigit()]
    for name in sorted(steps, key=lambda name: int(name.removeprefix(PREFIX)), reverse=True):
        yield checkpoints / name


def read_progress(folder: Folder) -> Progress:
    stored = folder.read_json(PROGRESS)
    losses = [(int(step), float(loss)) for step, loss in stored["losses"]]
    return Progress(step=stored["step"], losses=losses, eval_before=stored["eval_before"])


def write_progress(folder: Folder, progress: Progress) -> None:
    folder.write_json(PROGRESS, {"step": progress.step, "losses": progress.losses, "eval_before": progress.eval_before})
