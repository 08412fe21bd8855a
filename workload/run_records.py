"""The run records of folders and S3 prefixes: found, read, and told apart by id."""

import contextlib
import datetime
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.storage import Folder
from workload.errors import BadInputError
from workload.recorded_run import RecordedRun, recorded, shortened
from workload.run_folder import BEGUN, ERROR, LOG, RECORD, meant
from workload.run_places import check_file, files_of, look, place_of, side_by_side


@dataclass(frozen=True, kw_only=True)
class Found:
    """`runs` newest first, those without a time at the end; `unread` says of each place that could not be read why."""

    runs: tuple[RecordedRun, ...]
    unread: tuple[str, ...] = ()
    comparisons: tuple[str, ...] = ()


def find(places: Sequence[str], *, may_be_absent: bool = False) -> Found:
    """Of each place - a folder of runs, one run's folder, a record's file; on disk or s3:// - the runs in it.

    The first place that has a run counts. A place that cannot be read is told, and hides no other.
    Raises BadInputError where a place is no place, or, unless it `may_be_absent`, not there.
    """
    runs: dict[str, RecordedRun] = {}
    unread: list[str] = []
    comparisons: list[str] = []
    for told in places:
        place = place_of(told)
        try:
            looked = look(place, may_be_absent=may_be_absent)
            read = functools.partial(_read, record=place.record or RECORD)
            found = [run for run in side_by_side(read, looked.folders) if run is not None]
        except OSError as error:
            unread.append(f"{told}: {error.strerror or error}")
            continue
        comparisons += map(str, looked.comparisons)
        if looked.single and not found:
            raise BadInputError(f"{told}: there is no {place.record or RECORD}")
        for run in found:
            runs[run.id] = _either(runs.get(run.id), run)
    newest_first = sorted(runs.values(), key=_age, reverse=True)
    return Found(runs=tuple(newest_first), unread=tuple(unread), comparisons=tuple(comparisons))


def the_one(runs: Iterable[RecordedRun], asked: str) -> RecordedRun:
    """The run of that id, or of which it is the beginning, with or without the name that all have in common.

    Raises BadInputError where there is none, or several.
    """
    known = list(runs)
    names = meant(asked, (run.id for run in known))
    matching = [run for run in known if run.id in names]
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise BadInputError(f"no run begins with '{shortened(asked)}'; `efactl runs list` shows {len(known)}")
    lines = [f"'{shortened(asked)}' is the beginning of {len(matching)} runs; give more of one:"]
    raise BadInputError("\n".join([*lines, *(f"  {shortened(run.id)}  {run.place}" for run in matching)]))


def _read(folder: Folder, *, record: str) -> RecordedRun | None:
    """None where nothing of it looks like a run."""
    place = str(folder)
    try:
        return recorded(_content(folder, record), folder=folder.name, place=place)
    except (FileNotFoundError, NotADirectoryError):
        return _without_record(folder)
    except UnicodeDecodeError as error:
        problem = f"damaged: {record} is no text ({error.reason})"
    except OSError as error:
        problem = f"{record} cannot be read: {shortened(error.strerror or str(error))}"
    return RecordedRun(id=folder.name, place=place, problem=problem)


def _without_record(folder: Folder) -> RecordedRun | None:
    try:
        names = files_of(folder)
        if ERROR in names:
            lines = _content(folder, ERROR).strip().splitlines()
            problem = f"failed: {shortened(lines[0])}" if lines else "failed"
        elif LOG in names:
            problem = "no record: it still runs, or nobody has followed it to its end"
        else:
            return None
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read: {shortened(str(error))}"
    return RecordedRun(
        id=folder.name, place=str(folder), record=_begun(folder), problem=problem, seen=_last_written(folder)
    )


def _content(folder: Folder, name: str) -> str:
    check_file(folder, name)
    return folder.read(name)


def _begun(folder: Folder) -> Mapping[str, Any]:
    """Empty where it does not tell: a run of an older version, or a file that was cut."""
    try:
        told = json.loads(_content(folder, BEGUN))
    except (OSError, ValueError):
        return {}
    return {name: told.get(name) for name in ("stack", "startedAt")} if isinstance(told, Mapping) else {}


def _last_written(folder: Folder) -> datetime.datetime | None:
    """When the run itself last wrote in its folder of this machine: others may since (a page about it)."""
    for name in (ERROR, LOG):
        with contextlib.suppress(OSError):
            return datetime.datetime.fromtimestamp((Path(str(folder)) / name).stat().st_mtime, datetime.UTC)
    return None


def _either(first: RecordedRun | None, second: RecordedRun) -> RecordedRun:
    """A record is better than none; of two the first, saying where they differ."""
    if first is None or (first.problem and not second.problem):
        return second
    if second.problem or second.record == first.record:
        return first
    note = f"another record of it in {second.place} differs"
    return RecordedRun(id=first.id, place=first.place, record=first.record, notes=(*first.notes, note))


def _age(run: RecordedRun) -> tuple[float, str]:
    return (run.started.timestamp() if run.started else float("-inf"), run.id)
