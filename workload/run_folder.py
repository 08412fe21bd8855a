"""The folder `runs/<submission id>/` of one run: its log, and its record or the error that it ended with."""

import contextlib
from pathlib import Path

LOG = "job.log"
RECORD = "record.json"
ERROR = "error.txt"


def is_settled(folder: Path) -> bool:
    """Whether the run has been judged already: it is on record, or its error is."""
    return (folder / RECORD).exists() or (folder / ERROR).exists()


def settle(folder: Path, message: str) -> None:
    """Keeps the error of a run that can never be used, so that it is not collected again."""
    with contextlib.suppress(OSError):
        (folder / ERROR).write_text(message + "\n", encoding="utf-8")
