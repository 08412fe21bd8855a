"""Which files a model's name stood for when a run read them: a hub's model and a folder are written anew."""

import hashlib
from pathlib import Path

_FILES = ("config.json", "*.index.json", "*.safetensors", "pytorch_model*.bin")
_STRETCH = 1 << 16
_STRETCHES = 16
"""Of so many bytes each, spread over a file: training moves all weights, and to read them all takes minutes."""


def model_identity(model_id: str, directory: Path) -> str:
    """The hub's commit; of a model folder `sha256:...` over names, sizes and stretches of config and weights.

    `directory` is where `training.weights.model_directory` has found it. Raises OSError.
    """
    return hub_commit(model_id, directory) or _digest(directory)


def hub_commit(model_id: str, directory: Path) -> str | None:
    """None for a model folder. The hub's cache has a folder for each commit, of that name."""
    return None if Path(model_id).is_dir() else directory.name


def _digest(folder: Path) -> str:
    told = hashlib.sha256()
    for path in sorted({path for pattern in _FILES for path in folder.glob(pattern)}):
        size = path.stat().st_size
        told.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as file:
            for start in _starts(size):
                file.seek(start)
                told.update(file.read(_STRETCH))
    return f"sha256:{told.hexdigest()}"


def _starts(size: int) -> list[int]:
    """Where the stretches begin, the last one at the end; a file that is no larger than all of them is read whole."""
    if size <= _STRETCH * _STRETCHES:
        return list(range(0, size, _STRETCH))
    return [(size - _STRETCH) * number // (_STRETCHES - 1) for number in range(_STRETCHES)]
