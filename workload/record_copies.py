"""A run's files kept a second time where a team finds them: in the folder or S3 prefix of a stack's recordsPath."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from training.storage import S3_SCHEME, is_location
from workload.run_folder import BEGUN, ERROR, LOG, RECORD

# In this order: whoever sees a record finds its log beside it. Checkpoints stay where they are.
COPIED = (BEGUN, LOG, ERROR, RECORD)
NEXT_UP = "the next `pulumi up` tries it again"
_SETTING = "recordsPath"


@dataclass(frozen=True, kw_only=True)
class RecordsPlace:
    """`path` is a folder, relative to the program's, or s3://bucket/prefix; the rest is as whom AWS is asked there."""

    path: str
    profile: str = ""
    region: str = ""
    role_arn: str = ""

    def of(self, folder: Path) -> str:
        """Where the copies of a run's folder go."""
        return f"{self.path.rstrip('/')}/{folder.name}"


def is_no_place(path: str) -> str:
    """What is wrong with a recordsPath, to be said after it; empty where nothing is."""
    if path.rstrip("/").endswith(".json"):
        return "has a record's name, not a folder's: the commands that read runs would take it for one"
    if path.startswith(S3_SCHEME):
        return "" if is_location(path) else "is not s3://bucket/prefix"
    if "://" in path or path.startswith("~"):
        return "is neither a folder (absolute, or relative to the project) nor s3://bucket/prefix"
    return ""


def place_in(props: Mapping[str, Any]) -> RecordsPlace | None:
    """Of a resource's `records`, which are those of `infra.records_settings`; None where no copies are asked for."""
    given = props.get("records") or {}
    return RecordsPlace(**given) if given.get("path") else None


def is_due(olds: Mapping[str, Any], news: Mapping[str, Any], record: Path) -> bool:
    """Whether the copy that `news` ask for is not the one in state, which is told without looking at it.

    A record that is not on this machine cannot be copied from here.
    """
    place = place_in(news)
    return place is not None and record.exists() and olds.get("copy") != place.of(record.parent)


def copy_of(props: Mapping[str, Any], record: Path, say: Callable[[str], None], *, before: str = "") -> str:
    """Copies the folder of a record that was judged. Returns where the copies lie, for the state; empty: nowhere.

    `before` is what the state has. Never raises: a run is as good without its copy.
    """
    place = place_in(props)
    if place is None:
        return ""
    if not record.exists():
        kept = before if before == place.of(record.parent) else ""
        what = f"the one in {kept} keeps its former judgement" if kept else f"it is not copied to {place.path}"
        say(f"warning: {record} is not on this machine: {what}; `pulumi up` where it is brings it up to date")
        return kept
    return place.of(record.parent) if copied(place, record.parent, say, again=NEXT_UP) else ""


def on_settled(props: Mapping[str, Any], say: Callable[[str], None]) -> Callable[[Path], None] | None:
    """What copies the folder of a run that ended with an error, which no gate comes to; None where nothing is asked."""
    place = place_in(props)
    if place is None:
        return None
    by_hand = f"copy its {LOG} and {ERROR} by hand: no `pulumi up` comes back to it"

    def copy(folder: Path) -> None:
        copied(place, folder, say, again=by_hand)

    return copy


def copied(place: RecordsPlace, folder: Path, say: Callable[[str], None], *, again: str) -> bool:
    """Copies what a run's folder has of COPIED; False, and a line about it, where that failed.

    `again` says when it is tried once more.
    """
    problem = _problem_of(place, folder, COPIED)
    return _told(f"run {folder.name}", place.of(folder), folder, problem, say, again=again)


def copy_comparison(props: Mapping[str, Any], folder: Path, say: Callable[[str], None], *, own: Sequence[str]) -> None:
    """Copies the folder of a comparison that has ended: what each of its runs has of COPIED, then its `own` files.

    Never raises, and is not made up for: a comparison is carried out once.
    """
    place = place_in(props)
    if place is None:
        return
    below = replace(place, path=place.of(folder))
    runs = sorted(path for path in folder.iterdir() if path.is_dir())
    problem = next((problem for run in runs if (problem := _problem_of(below, run, COPIED))), "")
    problem = problem or _problem_of(place, folder, own)
    by_hand = "copy it by hand: it is not tried again"
    _told(f"comparison {folder.name}", place.of(folder), folder, problem, say, again=by_hand)


def _told(what: str, target: str, folder: Path, problem: str, say: Callable[[str], None], *, again: str) -> bool:
    if problem:
        say(f"warning: {what} was not copied to {target}: {problem}. It is kept in {folder}; {again}")
    else:
        say(f"{what} copied to {target}")
    return not problem


def _problem_of(place: RecordsPlace, folder: Path, names: Sequence[str]) -> str:
    """Copies the files of those names that are there. What went wrong and what to do about it; empty: nothing did."""
    try:
        files = [path for name in names if (path := folder / name).is_file()]
        if place.path.startswith(S3_SCHEME):
            return _to_s3(place, files, place.of(folder))
        return _to_folder(files, Path(place.of(folder)))
    except Exception as error:  # whatever it is, it is no failure of a run that may have cost a night
        return f"{type(error).__name__}: {error}: correct {_SETTING}"


def _to_folder(files: Sequence[Path], target: Path) -> str:
    try:
        target.mkdir(parents=True, exist_ok=True)
        for path in files:
            _replace(path, target / path.name)
    except OSError as error:
        return (
            f"{error.strerror or error}: make {target.parent} writable for whoever runs pulumi, or correct {_SETTING}"
        )
    return ""


def _replace(path: Path, target: Path) -> None:
    """Whole or not at all."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copyfile(path, temporary)
        temporary.replace(target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _to_s3(place: RecordsPlace, files: Sequence[Path], target: str) -> str:
    # boto3 costs a fifth of a second, which an `up` without a copy should not pay.
    from capacity.aws import AWS_ERRORS, Access, AwsRefusedError, client, sorted_error, told_by, words_of

    bucket, _, prefix = target.removeprefix(S3_SCHEME).partition("/")
    try:
        s3 = client("s3", place.region, access=Access(profile=place.profile, role_arn=place.role_arn))
        for path in files:
            with path.open("rb") as content:
                s3.upload_fileobj(content, bucket, f"{prefix}/{path.name}")
    except AwsRefusedError as error:
        return str(error)
    except AWS_ERRORS as error:
        code, _ = told_by(error)
        return f"{words_of(error)}: {_WHAT_TO_DO.get(code) or sorted_error(error).what_to_do}"
    except OSError as error:
        return str(error)
    return ""


_DENIED = f"the credentials need what docs/iam/records.json allows, for the bucket of {_SETTING}"
_NETWORK = "check the network, and AWS_ENDPOINT_URL where it is set"
_WHAT_TO_DO = {
    "AccessDenied": _DENIED,
    "403": _DENIED,
    "NoSuchBucket": f"make the bucket, or correct {_SETTING}",
    **dict.fromkeys(("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "SSLError"), _NETWORK),
}
