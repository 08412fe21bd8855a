"""What a run left, on this machine or in S3, found by its id, the beginning of it, or the path of a record."""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import log_facts
from report.run import Run
from training.storage import S3_SCHEME, Folder, LocalFolder
from workload.errors import BadInputError, ReportedError
from workload.run_folder import ERROR, LOG, RECORD, meant
from workload.run_places import check_file, deeper, files_of, look, place_of, side_by_side

SCHEMAS = ("ray-train-efa/run-record/", "ray-train-efa/bandwidth-run/")
_SHOWN = 8
# The record that a failed job prints is a line of some megabytes for the largest of runs.
_LONGEST_LINE = 1 << 26


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """Names of files in `folder`; what is None is not there."""

    folder: Folder
    record: str | None
    error: str | None
    log: str | None

    @property
    def beside(self) -> str:
        """The folder of this machine where a page about the run goes unless told otherwise; empty for a run in S3."""
        return str(self.folder) if isinstance(self.folder, LocalFolder) else ""


class Places:
    """Where runs are looked for, in the comparisons there too; looked at once, and only where an id is asked for.

    `may_be_absent`: a place that is not there has no runs, and is no mistake.
    """

    def __init__(self, told: Sequence[str], *, may_be_absent: bool = False) -> None:
        self.told = tuple(told)
        self._may_be_absent = may_be_absent
        self._unread: list[str] = []

    @property
    def unread(self) -> tuple[str, ...]:
        """Of each place that could not be read, why."""
        return tuple(self._unread)

    def find(self, asked: str) -> RunFiles:
        """Raises BadInputError where nothing, or more than one, is meant; ReportedError where it cannot be read."""
        if (named := _named(asked)) is not None:
            return named
        found = [one for name in meant(asked, self._folders) if (one := _best(self._folders[name])) is not None]
        if len(found) == 1:
            return found[0]
        if found:
            names = [one.folder.name for one in found]
            raise BadInputError(
                f"'{asked}' is the beginning of {len(names)} runs: {_listed(names)}; give more of the id"
            )
        where = ", ".join(self.told)
        not_read = f"; not read: {'; '.join(self._unread)}" if self._unread else ""
        raise BadInputError(f"no run '{asked}' in {where}, and no such file; {self._known_runs()}{not_read}")

    @functools.cached_property
    def _folders(self) -> Mapping[str, Sequence[Folder]]:
        """What may be a run, by its id, in the order of the places that have it."""
        folders: dict[str, list[Folder]] = {}
        for told in self.told:
            place = place_of(told)
            try:
                looked = look(place, may_be_absent=self._may_be_absent)
            except OSError as error:
                self._unread.append(f"{told}: {error.strerror or error}")
                continue
            there, unread = deeper(looked)
            self._unread += unread
            for folder in there:
                folders.setdefault(folder.name, []).append(folder)
        return folders

    def _known_runs(self) -> str:
        everything = [folder for folders in self._folders.values() for folder in folders]
        known = sorted({name for name in side_by_side(_name_of_run, everything) if name})
        return f"there are {_listed(known)}" if known else "there is none yet: `efactl up` makes one"


def load(files: RunFiles, label: str = "") -> Run:
    """Raises BadInputError where the record is none."""
    record: dict[str, Any] = {}
    if files.record is not None:
        record = _read(files.folder, files.record)
    error = (
        _content(files.folder, files.error).decode("utf-8", "replace").strip() if files.error and not record else None
    )
    identity = str(record.get("submissionId") or files.folder.name)
    facts = log_facts.read(_lines(files.folder, files.log)) if files.log else None
    return Run(id=identity, record=record, log=facts, error=error, label=label)


def _named(asked: str) -> RunFiles | None:
    """What a path means; None where it names no run, and may be the beginning of an id."""
    if not asked.strip():
        return None
    in_s3 = asked.startswith(S3_SCHEME)
    if not in_s3 and not Path(asked).exists():
        return None
    place = place_of(asked)
    # A record that was copied elsewhere has the log of another run beside it, or none.
    if place.record not in ("", RECORD):
        return RunFiles(folder=place.folder, record=place.record, error=None, log=None)
    found = _of_folder(place.folder)
    if in_s3 and (found is None or (place.record and found.record is None)):
        raise BadInputError(f"no run {asked}: there is no {RECORD} there, no {ERROR} and no {LOG}, or no such bucket")
    return found


def _of_folder(folder: Folder) -> RunFiles | None:
    try:
        there = files_of(folder)
    except OSError as refused:
        raise ReportedError(f"{folder} cannot be read: {refused.strerror or refused}") from refused
    record, error, log = (name if name in there else None for name in (RECORD, ERROR, LOG))
    return RunFiles(folder=folder, record=record, error=error, log=log) if there else None


def _best(folders: Sequence[Folder]) -> RunFiles | None:
    """Of those of one id the first with a record, else the first with anything of a run, as `efactl runs` has it."""
    found = [one for one in map(_of_folder, folders) if one is not None]
    return next((one for one in found if one.record is not None), found[0] if found else None)


def _name_of_run(folder: Folder) -> str:
    """Empty where it is none, or nobody can tell."""
    try:
        return folder.name if files_of(folder) else ""
    except OSError:
        return ""


def _read(folder: Folder, name: str) -> dict[str, Any]:
    path = f"{folder}/{name}"
    try:
        record = json.loads(_content(folder, name).decode("utf-8"))
    except (ValueError, RecursionError):
        raise BadInputError(f"{path} is no run record: it is not JSON; give a run's id or its {RECORD}") from None
    schema = record.get("schema") if isinstance(record, dict) else None
    if not isinstance(schema, str) or not schema.startswith(SCHEMAS):
        raise BadInputError(f"{path} is no run record: its schema is {schema!r}; give a run's id or its {RECORD}")
    return dict(record)


def _content(folder: Folder, name: str) -> bytes:
    try:
        check_file(folder, name)
        with folder.open_read(name) as stream:
            return stream.read()
    except OSError as error:
        out_of_reach = str(folder).startswith(S3_SCHEME) and not isinstance(error, FileNotFoundError)
        kind = ReportedError if out_of_reach else BadInputError
        raise kind(f"{folder}/{name} cannot be read: {error.strerror or error}") from error


def _lines(folder: Folder, name: str) -> Iterator[str]:
    check_file(folder, name)
    with folder.open_read(name) as stream:
        for line in iter(functools.partial(stream.readline, _LONGEST_LINE), b""):
            yield line.decode("utf-8", errors="replace")


def _listed(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest
