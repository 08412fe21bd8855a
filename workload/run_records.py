"""The run records of folders and S3 prefixes: found, read, and told apart by id."""

import datetime
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from training.storage import S3_SCHEME, Folder, is_location, open_folder
from workload.errors import BadInputError
from workload.recorded_run import RecordedRun, recorded, shortened
from workload.run_folder import ERROR, LOG, RECORD, meant

# A comparison's jobs lie one folder deeper (workload/compare_runs.py).
_COMPARISON = "compare-"
_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class Found:
    """`runs` newest first, those without a time at the end; `unread` says of each place that could not be read why."""

    runs: tuple[RecordedRun, ...]
    unread: tuple[str, ...] = ()
    comparisons: tuple[str, ...] = ()


def find(places: Sequence[str]) -> Found:
    """Of each place - a folder of runs, one run's folder, its record.json; on disk or s3:// - the runs in it.

    The first place that has a run counts. A place that cannot be read is told, and hides no other.
    Raises BadInputError where a place is no place.
    """
    runs: dict[str, RecordedRun] = {}
    unread: list[str] = []
    comparisons: list[str] = []
    for place in places:
        folder, only = _place(place)
        try:
            names = [] if only else folder.names()
            if not only and not names and not folder.exists():
                # S3 knows no folders, and a listing does not tell a bucket that is not there from an empty one.
                if not place.startswith(S3_SCHEME):
                    raise BadInputError(f"{place}: there is no such folder")
                unread.append(f"{place}: there is nothing of that prefix, or no such bucket")
            comparisons += [str(folder / name) for name in sorted(names) if name.startswith(_COMPARISON)]
            single = only or RECORD in names
            folders = [folder] if single else [folder / name for name in names if not name.startswith(_COMPARISON)]
            found = _read_all(folders)
        except OSError as error:
            unread.append(f"{place}: {error.strerror or error}")
            continue
        if single and not found:
            raise BadInputError(f"{place}: there is no {RECORD}")
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


def _place(place: str) -> tuple[Folder, bool]:
    """The folder, and whether it is that of one run."""
    if not place.strip():
        raise BadInputError("--from names no folder")
    only = place.rstrip("/").endswith(f"/{RECORD}") or place == RECORD
    whole = place.rstrip("/").removesuffix(RECORD).rstrip("/") if only else place
    if "://" not in whole:
        return open_folder(str(Path(whole or ("." if only else place)).resolve())), only
    if not whole.startswith(S3_SCHEME) or not is_location(whole):
        raise BadInputError(f"{place}: is neither a folder nor s3://bucket/prefix")
    return open_folder(whole), only


def _read_all(folders: Sequence[Folder]) -> list[RecordedRun]:
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return [run for run in pool.map(_read, folders) if run is not None]


def _read(folder: Folder) -> RecordedRun | None:
    """None where nothing of it looks like a run."""
    place = str(folder)
    try:
        return recorded(folder.read(RECORD), folder=folder.name, place=place)
    except (FileNotFoundError, NotADirectoryError):
        return _without_record(folder)
    except UnicodeDecodeError as error:
        problem = f"damaged: {RECORD} is no text ({error.reason})"
    except OSError as error:
        problem = f"{RECORD} cannot be read: {shortened(error.strerror or str(error))}"
    return RecordedRun(id=folder.name, place=place, problem=problem)


def _without_record(folder: Folder) -> RecordedRun | None:
    try:
        names = folder.names()
        if ERROR in names:
            lines = folder.read(ERROR).strip().splitlines()
            problem = f"failed: {shortened(lines[0])}" if lines else "failed"
        elif LOG in names:
            problem = "no record: it still runs, or nobody has followed it to its end"
        else:
            return None
    except NotADirectoryError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read: {shortened(str(error))}"
    return RecordedRun(id=folder.name, place=str(folder), problem=problem, seen=_changed(folder))


def _changed(folder: Folder) -> datetime.datetime | None:
    """When a folder of this machine last got a file."""
    try:
        return datetime.datetime.fromtimestamp(Path(str(folder)).stat().st_mtime, datetime.UTC)
    except OSError:
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
