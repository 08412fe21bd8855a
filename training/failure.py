"""From a failed worker group to the one line a user reads."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from training.errors import FinalError, TrainingError, first_line

# What the other ranks say when one is gone: true, but never the cause.
_PEER_LOST = re.compile(r"connection (closed|reset|refused)|broken pipe|gloo|nccl|timed out", re.IGNORECASE)
_TRACEBACK = re.compile(r"(?:\[Node (?P<node>\S+)\] )?Traceback ")
NO_HOSTS: Mapping[int, str] = MappingProxyType({})


@contextmanager
def final_unless_outage() -> Iterator[None]:
    """Around all that a rank does: a TrainingError becomes a FinalError, unless an OSError has caused it.

    Storage and network may be back for another attempt; a loss that is not finite, a refused argument stay what they
    are. Told here, because a cause does not travel with its exception.
    """
    try:
        yield
    except TrainingError as error:
        if isinstance(error.__cause__, OSError):
            raise
        raise FinalError(str(error)) from error


def raise_if_final(failures: Mapping[int, BaseException]) -> None:
    """Raises the FinalError that a rank has left, if any has."""
    for failure in failures.values():
        cause = _unwrap(failure)
        if isinstance(cause, FinalError):
            raise FinalError(str(cause)) from failure


def root_cause(error: BaseException, hosts: Mapping[int, str] = NO_HOSTS) -> str:
    """The failure that the others follow from: a reported error, else a rank's own exception, else a dead rank.

    `hosts` says where ranks ran, as far as that is known.
    """
    failures: dict[int, BaseException] = getattr(error, "worker_failures", {})
    if not failures:
        inner = getattr(error, "controller_failure", error)
        return _ends(_unwrap(inner))
    return cause_of(failures, hosts)


def cause_of(failures: Mapping[int, BaseException], hosts: Mapping[int, str] = NO_HOSTS) -> str:
    """As `root_cause`, from what each failed rank left."""
    rank, cause = min(((rank, _unwrap(failure)) for rank, failure in failures.items()), key=_order)
    if isinstance(cause, TrainingError):
        return str(cause)
    where = f"rank {rank} on {hosts[rank]}" if rank in hosts else f"rank {rank}"
    text = f"{where}: {type(cause).__name__}: {first_line(cause)}"
    if not _says_peer_lost(cause):
        return text
    lost = f"are {' and '.join(sorted(set(hosts.values())))} still there" if hosts else "are all nodes still there"
    return f"{text}; no rank failed by itself: {lost}, and do they reach each other?"


def _ends(error: BaseException) -> str:
    """The first line and, where Ray puts a traceback below it, the last, which has the cause."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    traceback = next((found for line in lines if (found := _TRACEBACK.match(line))), None)
    if traceback is None:
        return first_line(error)
    where = f"node {traceback['node']}: " if traceback["node"] else ""
    headline = "" if lines[0] == traceback.string else f"{lines[0].rstrip('.')}: "
    return f"{headline}{where}{lines[-1].strip()}"


def _order(item: tuple[int, BaseException]) -> tuple[int, int]:
    rank, cause = item
    if isinstance(cause, TrainingError):
        return 0, rank
    if _says_peer_lost(cause):
        return 3, rank
    return (2 if type(cause).__module__.startswith("ray.") else 1), rank


def _says_peer_lost(cause: BaseException) -> bool:
    return not type(cause).__module__.startswith("ray.") and _PEER_LOST.search(str(cause)) is not None


def _unwrap(error: BaseException) -> BaseException:
    """Ray Train wraps what a rank raised in an exception whose text is the whole traceback."""
    inner = getattr(error, "_base_exc", None)
    return inner if isinstance(inner, BaseException) else error
