"""What a run left on this machine, found by its id, the beginning of it, or the path of a record."""

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import log_facts
from report.run import Run
from workload.errors import BadInputError
from workload.run_folder import ERROR, LOG, RECORD, meant

SCHEMAS = ("ray-train-efa/run-record/", "ray-train-efa/bandwidth-run/")
_SHOWN = 8
# The record that a failed job prints is a line of some megabytes for the largest of runs.
_LONGEST_LINE = 1 << 26


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """`folder` is where a page about the run goes unless told otherwise; what is None is not there."""

    folder: Path
    record: Path | None
    error: Path | None
    log: Path | None


def find(asked: str, runs: Path) -> RunFiles:
    """In `runs` and the comparisons below it. Raises BadInputError where nothing, or more than one, is meant."""
    if (path := Path(asked)).is_file():
        return _of_record(path)
    if path.is_dir() and (known := _of_folder(path)):
        return known
    folders = {folder.name: folder for folder in _folders(runs)}
    names = meant(asked, folders)
    if len(names) == 1 and (only := _of_folder(folders[names[0]])):
        return only
    if names:
        raise BadInputError(f"'{asked}' is the beginning of {len(names)} runs: {_listed(names)}; give more of the id")
    known_runs = f"there are {_listed(sorted(folders))}" if folders else "there is none yet: `efactl up` makes one"
    raise BadInputError(f"no run '{asked}' in {runs}, and no such file; {known_runs}")


def load(files: RunFiles, label: str = "") -> Run:
    """Raises BadInputError where the record is none."""
    record: dict[str, Any] = {}
    if files.record is not None:
        record = _read(files.record)
    error = files.error.read_text(encoding="utf-8", errors="replace").strip() if files.error and not record else None
    identity = str(record.get("submissionId") or files.folder.name)
    facts = log_facts.read(_lines(files.log)) if files.log else None
    return Run(id=identity, record=record, log=facts, error=error, label=label)


def _of_folder(folder: Path) -> RunFiles | None:
    record, error, log = (path if (path := folder / name).is_file() else None for name in (RECORD, ERROR, LOG))
    return RunFiles(folder=folder, record=record, error=error, log=log) if record or error or log else None


def _of_record(path: Path) -> RunFiles:
    """A record that was copied elsewhere has the log of another run beside it, or none."""
    if path.name == RECORD and (whole := _of_folder(path.parent)):
        return whole
    return RunFiles(folder=path.parent, record=path, error=None, log=None)


def _folders(runs: Path) -> Iterator[Path]:
    for pattern in ("*", "compare-*/*"):
        yield from (folder for folder in runs.glob(pattern) if _of_folder(folder))


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError):
        raise BadInputError(f"{path} is no run record: it is not JSON; give a run's id or its {RECORD}") from None
    schema = record.get("schema") if isinstance(record, dict) else None
    if not isinstance(schema, str) or not schema.startswith(SCHEMAS):
        raise BadInputError(f"{path} is no run record: its schema is {schema!r}; give a run's id or its {RECORD}")
    return dict(record)


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as stream:
        for line in iter(functools.partial(stream.readline, _LONGEST_LINE), b""):
            yield line.decode("utf-8", errors="replace")


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest
