"""Where the commands that read runs look for them: where they are told to, else in the project's and the stack's."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from efactl.stack_names import FOLDER, file_of
from training.storage import S3_SCHEME
from workload.errors import BadInputError, ReportedError
from workload.record_copies import is_no_place

if TYPE_CHECKING:
    from capacity.aws import Access

SETTING = "recordsPath"
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """`given`: the user named them, so each must be there. `unread` says of a place why it is not asked at all."""

    places: tuple[str, ...]
    given: bool = False
    unread: tuple[str, ...] = ()


@contextmanager
def sources(given: Sequence[str] | None, stack: str | None) -> Iterator[Sources]:
    """The places that are `given`, else the project's runs/ and, of a stack whose file is there, its recordsPath.

    While it lasts S3 is reached as that stack's settings have AWS asked. A stack that is no more has its runs in runs/.
    """
    own = str(FOLDER / "runs")
    if given:
        with _environment({}):
            yield Sources(places=tuple(given), given=True)
        return
    place, access = ("", None) if stack is None or not _is_there(stack) else _of_stack(stack)
    if not place or access is None:
        yield Sources(places=(own,))
        return
    if wrong := is_no_place(place):
        yield Sources(places=(own,), unread=(f"{SETTING} of stack {stack}: '{place}' {wrong}",))
        return
    place = place if place.startswith(S3_SCHEME) else str(FOLDER / place)
    try:
        credentials = _credentials(access) if place.startswith(S3_SCHEME) else {}
    except ReportedError as error:
        yield Sources(places=(own,), unread=(f"{place}: {error}",))
        return
    with _environment(credentials):
        yield Sources(places=(own, place))


def check_stack(name: str) -> None:
    """Raises BadInputError, with the stacks that there are, where it has no file."""
    file_of(name, FOLDER)


def _is_there(stack: str) -> bool:
    try:
        check_stack(stack)
    except BadInputError:
        return False
    return True


def _of_stack(name: str) -> "tuple[str, Access | None]":
    """Its recordsPath, and as whom AWS is asked."""
    from efactl.stack import Stack

    stack = Stack(name)
    return str(stack.config(SETTING) or "").strip(), stack.access()


def _credentials(access: "Access") -> dict[str, str]:
    """The caller's, for pyarrow, which knows neither roles nor every kind of profile; empty: the environment's own do.

    Raises ReportedError where they cannot be had.
    """
    if not (access.profile or access.role_arn):
        return {}
    from capacity.aws import credentials

    return credentials(access)


@contextmanager
def _environment(credentials: Mapping[str, str]) -> Iterator[None]:
    """This process's own with these credentials in place of those it has; none: with those. A bucket's region is its
    own, whatever region the shell or the stack works in."""
    from training.s3 import forget
    from training.s3_environment import buckets_first

    before = {name: os.environ.pop(name, None) for name in (CREDENTIALS if credentials else ())}
    os.environ.update(credentials)
    forget()
    try:
        with buckets_first():
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        forget()
