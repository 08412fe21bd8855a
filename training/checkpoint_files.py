"""A checkpoint directory counts only once its completion marker is written. No torch here: the driver reads them too.

<checkpoints>/step-000020/   *.distcp and .metadata   every rank's shards of model and optimizer
                             progress.json            what the run knows besides tensors
                             COMPLETE.json            written last: step, world size, the files and their sizes
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from training.errors import TrainingError

MARKER = "COMPLETE.json"
PROGRESS = "progress.json"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a run knows at a checkpoint: (step, loss) from the first step on, and its evaluation before training."""

    step: int
    losses: list[tuple[int, float]]
    eval_before: dict[str, float] | None


def step_directory(checkpoints: Path, step: int) -> Path:
    return checkpoints / f"step-{step:06d}"


def write_marker(directory: Path, step: int, world_size: int) -> None:
    files = {
        path.relative_to(directory).as_posix(): path.stat().st_size
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != MARKER
    }
    write_atomically(directory / MARKER, json.dumps({"step": step, "world_size": world_size, "files": files}))


def write_atomically(path: Path, text: str) -> None:
    """Whole or not at all, also for a reader on another node and after a crash."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turns what the operating system says about shared storage into a TrainingError naming --storage_path."""
    try:
        yield
    except OSError as error:
        raise TrainingError(f"--storage_path: {path} cannot be written: {error}") from error


def why_incomplete(directory: Path) -> str | None:
    """None for a checkpoint that is whole."""
    try:
        marker = json.loads((directory / MARKER).read_text())
    except FileNotFoundError:
        return f"it has no {MARKER}"
    except ValueError:
        return f"its {MARKER} is damaged"
    except OSError as error:
        return f"its {MARKER} cannot be read: {error}"
    files = marker.get("files") if isinstance(marker, dict) else None
    if not isinstance(files, dict) or not isinstance(marker.get("step"), int):
        return f"its {MARKER} is not one"
    for name, size in files.items():
        path = directory / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
    return None


def newest_complete(checkpoints: Path) -> tuple[Path | None, list[str]]:
    """The newest whole checkpoint, and a line for each newer one that had to be passed over."""
    passed_over: list[str] = []
    for directory in _newest_first(checkpoints):
        reason = why_incomplete(directory)
        if reason is None:
            return directory, passed_over
        passed_over.append(f"checkpoint {directory.name} is incomplete and ignored: {reason}")
    return None, passed_over


def require_complete(path: str) -> Path:
    """The checkpoint a user names. Raises TrainingError naming --resume_from and the path."""
    directory = Path(path)
    if not directory.is_dir():
        raise TrainingError(f"--resume_from {path}: no such directory")
    reason = why_incomplete(directory)
    if reason is not None:
        raise TrainingError(f"--resume_from {path}: not a complete checkpoint: {reason}")
    return directory


def step_of(directory: Path) -> int:
    return int(json.loads((directory / MARKER).read_text())["step"])


def _newest_first(checkpoints: Path) -> Iterator[Path]:
    numbered = [path for path in checkpoints.glob("step-*") if path.name.removeprefix("step-").isdigit()]
    yield from sorted(numbered, key=lambda path: int(path.name.removeprefix("step-")), reverse=True)


def read_progress(directory: Path) -> Progress:
    stored = json.loads((directory / PROGRESS).read_text())
    losses = [(int(step), float(loss)) for step, loss in stored["losses"]]
    return Progress(step=stored["step"], losses=losses, eval_before=stored["eval_before"])


def write_progress(directory: Path, progress: Progress) -> None:
    text = json.dumps(
        {"step": progress.step, "losses": progress.losses, "eval_before": progress.eval_before}, allow_nan=False
    )
    write_atomically(directory / PROGRESS, text)
