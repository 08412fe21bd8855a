"""What a living Ray cluster has at a moment: its processes end and its files go while they are looked at."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import psutil

T = TypeVar("T")


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below the folder that is still there when it is read."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            if path.is_file():
                with contextlib.suppress(FileNotFoundError):
                    yield path, path.read_bytes()


def told(processes: Iterable[psutil.Process], of: Callable[[psutil.Process], T]) -> list[T]:
    """What those of the processes tell that are still there when they are asked."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(of(process))
    return found
