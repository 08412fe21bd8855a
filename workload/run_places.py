"""Where runs are: the places that a user names, on this machine or in S3, and the folders of runs in them."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from training.storage import S3_SCHEME, Folder, LocalFolder, is_location, open_folder
from workload.errors import BadInputError
from workload.run_folder import ERROR, LOG, RECORD, regular

T = TypeVar("T")

# A comparison's jobs lie one folder deeper (workload/compare_runs.py).
COMPARISON = "compare-"
_FILES = (RECORD, ERROR, LOG)
_JSON = ".json"
_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder, and the name of the one record in it that is meant; empty for all that is in it."""

    told: str
    folder: Folder
    record: str = ""


@dataclass(frozen=True, kw_only=True)
class Looked:
    """`folders` may be runs: what is in them has not been looked at, unless the place is one run's (`single`)."""

    folders: tuple[Folder, ...]
    comparisons: tuple[Folder, ...] = ()
    single: bool = False


def place_of(told: str) -> Place:
    """Of a folder of runs, one run's folder, or a record's file. Raises BadInputError where it is no place at all."""
    whole = told.strip().rstrip("/")
    above, _, last = whole.rpartition("/")
    if "://" in told:
        record = last if last.endswith(_JSON) else ""
        where = above if record else whole
        if not where.startswith(S3_SCHEME) or not is_location(where):
            raise BadInputError(f"{told}: is neither a folder nor s3://bucket/prefix")
        return Place(told=told, folder=open_folder(where), record=record)
    if not told.strip():
        raise BadInputError("--from names no folder")
    path = Path(os.path.realpath(told))  # which, unlike resolve(), takes links that lead in a circle
    names_record = path.is_file() or (path.suffix == _JSON and not path.is_dir())
    folder = open_folder(str(path.parent if names_record else path))
    return Place(told=told, folder=folder, record=path.name if names_record else "")


def look(place: Place, *, may_be_absent: bool = False) -> Looked:
    """One listing, no reading. Raises OSError where the storage refuses, BadInputError where there is no such folder,
    unless `may_be_absent`."""
    if place.record:
        return Looked(folders=(place.folder,), single=True)
    names = sorted(place.folder.names())
    if not names and not place.folder.exists():
        if not place.told.startswith(S3_SCHEME):
            if may_be_absent:
                return Looked(folders=())
            raise BadInputError(f"{place.told}: there is no such folder")
        # S3 knows no folders, and a listing does not tell a bucket that is not there from an empty one.
        if not (may_be_absent and _bucket_of(place.folder).exists()):
            raise FileNotFoundError("there is nothing of that prefix, or no such bucket")
    if any(name in _FILES for name in names):
        return Looked(folders=(place.folder,), single=True)
    return Looked(
        folders=tuple(place.folder / name for name in names if not name.startswith(COMPARISON)),
        comparisons=tuple(place.folder / name for name in names if name.startswith(COMPARISON)),
    )


def deeper(looked: Looked) -> tuple[list[Folder], list[str]]:
    """With the folders in the comparisons; and of each of those that cannot be read, why."""
    folders, unread = list(looked.folders), []
    for comparison, below in zip(looked.comparisons, side_by_side(_below, looked.comparisons), strict=True):
        if isinstance(below, OSError):
            unread.append(f"{comparison}: {below.strerror or below}")
        else:
            folders += below
    return folders, unread


def files_of(folder: Folder) -> frozenset[str]:
    """Which of a run's files are there; none where it is no run's. Raises OSError where the storage refuses."""
    try:
        return frozenset(_FILES) & frozenset(folder.names())
    except NotADirectoryError:
        return frozenset()


def check_file(folder: Folder, name: str) -> None:
    """Before it is opened. Raises OSError where a folder of this machine has something else of that name."""
    if isinstance(folder, LocalFolder):
        regular(folder.path / name)


def side_by_side(ask: Callable[[Folder], T], folders: Sequence[Folder]) -> list[T]:
    """What each folder answers, in their order."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return list(pool.map(ask, folders))


def _below(folder: Folder) -> list[Folder] | OSError:
    try:
        return [folder / name for name in sorted(folder.names())]
    except NotADirectoryError:  # a file somebody keeps there, whose name begins as a comparison's does
        return []
    except OSError as error:
        return error


def _bucket_of(folder: Folder) -> Folder:
    return open_folder("/".join(str(folder).split("/", 3)[:3]))
