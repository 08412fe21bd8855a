"""The folder `runs/<submission id>/` of one run: whose it is, its log, its record or the error that it ended with."""

import contextlib
import errno
import json
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workload.errors import ReportedError
from workload.job_kind import BANDWIDTH, TRAINING
from workload.record_file import iso, write

LOG = "job.log"
RECORD = "record.json"
ERROR = "error.txt"
BEGUN = "begun.json"
"""Whose run it is and since when, in words that a record has too; all that tells it of a run that leaves no record.
And whether its log is whole."""
_FOLLOWED = "logFollowed"


def meant(asked: str, ids: Iterable[str]) -> list[str]:
    """The id that is asked for, else those of which it is the beginning; with or without the name of their kind."""
    names = [asked, *(f"{kind.run_name}-{asked}" for kind in (TRAINING, BANDWIDTH))]
    known = sorted(ids)
    exact = [one for one in known if one in names]
    return exact or [one for one in known if asked and one.startswith(tuple(names))]


def regular(path: Path) -> Path:
    """The path of a file that is there. Raises OSError for anything else: a pipe is waited for, a device has no end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    return path


def create(folder: Path) -> None:
    """Raises ReportedError where no run could be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReportedError(f"the folder {folder} for the runs' logs and records cannot be made: {error}") from error


def begin(folder: Path, *, stack: str, started_at: float) -> None:
    """Makes the folder and writes BEGUN: a run that is followed again is the same one, and its log begins anew."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {"stack": stack or None, "startedAt": iso(started_at)}
    # A run is as good without it.
    with contextlib.suppress(ReportedError):
        write(folder / BEGUN, {**own, **_begun(folder), _FOLLOWED: False})


def end_log(folder: Path) -> None:
    """Notes that the run's log was followed to its end, and has every line."""
    with contextlib.suppress(ReportedError):
        write(folder / BEGUN, {**_begun(folder), _FOLLOWED: True})


def _begun(folder: Path) -> Mapping[str, Any]:
    """Empty where it does not tell."""
    try:
        told = json.loads(regular(folder / BEGUN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, Mapping) else {}


def is_settled(folder: Path) -> bool:
    """Whether the run has had its judgement: by a gate, or by the error it ended with.

    A record that no gate has judged is one that the engine may never have stored: the run is collected again.
    """
    if (folder / ERROR).exists():
        return True
    try:
        record = json.loads(regular(folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return record.get("quality", {}).get("passed") is not None


def is_followed(folder: Path) -> bool:
    """Whether the run's log was followed to its end. Where BEGUN does not say (an older run), one with a record was."""
    followed = _begun(folder).get(_FOLLOWED)
    return (folder / RECORD).exists() if followed is None else followed is True


def settle(folder: Path, message: str) -> None:
    """Keeps the error of a run that can never be used, so that it is not collected again."""
    with contextlib.suppress(OSError):
        (folder / ERROR).write_text(message + "\n", encoding="utf-8")
