"""Whose a directory is that a run exports to. No torch here: the driver marks it before a rank starts.

A run marks the directory before it trains, again as each attempt begins, and once more as it exports. Of several that
train for the same directory the first to export has it; until then a mark keeps nobody out.
"""

import socket
import time
from collections.abc import Mapping
from typing import Any

from training import checkpoint_files
from training.errors import TrainingError, first_line
from training.storage import Folder, open_folder

MARK = ".exported-by.json"


def take_over(location: str, owner: str, *, exports: bool = False) -> str | None:
    """Mark the directory as `owner`'s; what it has exported there stays until there is a newer model to write.

    Returns the run whose mark this one takes the place of, if that is another's. Raises TrainingError where another
    has exported or is exporting, where the directory holds anything else, or cannot be written.
    """
    to = open_folder(location)
    try:
        held, mark = exported(to), _mark(to)
        theirs = mark.get("run") if mark.get("run") != owner else None
        if mark.get("run") != owner and (held or mark.get("exports")):
            what = f"holds {min(held)} already" if held else "is being exported to"
            whose = f", taken by run {theirs}" if theirs else ""
            raise TrainingError(f"--export_to {location}: {what}{whose}: name a new directory")
        to.make()
        to.write_json(MARK, {"run": owner, "exports": exports})
    except OSError as error:
        raise TrainingError(f"--export_to {location}: cannot be written: {first_line(error)}") from error
    return theirs


def check_shared(location: str, owner: str) -> None:
    """For every rank, once rank 0 has taken the directory over. Raises TrainingError where it does not see that."""
    to = open_folder(location)
    give_up, seen = time.monotonic() + checkpoint_files.SEEN_WITHIN_S, None
    try:
        while (seen := _mark(to).get("run")) != owner:
            if time.monotonic() > give_up:
                raise TimeoutError(f"not seen within {checkpoint_files.SEEN_WITHIN_S:g} s")
            time.sleep(0.5)
    except OSError as error:
        instead, apart = (f", but the mark of run {seen}", ", and a directory of its own") if seen else ("", "")
        raise TrainingError(
            f"--export_to {location}: node {socket.gethostname()} does not see what rank 0 wrote there{instead}: "
            f"name storage that all nodes share{apart}"
        ) from error


def exported(to: Folder) -> set[str]:
    """What is in it besides the mark, and besides one that is being written."""
    return {name for name in to.names() if not name.startswith((MARK, f".{MARK}."))}


def _mark(to: Folder) -> Mapping[str, Any]:
    """{} where there is none that can be understood."""
    try:
        mark = to.read_json(MARK)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return mark if isinstance(mark, dict) else {}
