"""From a failed worker group to the one line a user reads."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from types import MappingProxyType

from training.errors import CodeError, FinalError, TrainingError, first_line
from training.out_of_memory import is_out_of_memory, out_of_memory

# What the other ranks say when one is gone: true, but never the cause.
_PEER_LOST = re.compile(r"connection (closed|reset|refused)|broken pipe|gloo|nccl|timed out", re.IGNORECASE)
_TRACEBACK = re.compile(r"(?:\[Node (?P<node>\S+)\] )?Traceback ")
# What code meets again, whatever machine runs it. RuntimeError is none: it is also how a lost peer shows.
_OF_CODE = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, NotImplementedError),
    *(RecursionError, SyntaxError, TypeError, ValueError),
)
NO_HOSTS: Mapping[int, str] = MappingProxyType({})


@contextmanager
def final_unless_outage() -> Iterator[None]:
    """Around all that a rank does: what another attempt would meet again becomes a FinalError.

    That is a TrainingError, unless an OSError has caused it, a GPU without memory left, and an error of code or
    settings that is no OSError too, as one of SSL is, and that no outage came before. Storage, network and other
    ranks may be back; a loss that is not finite, a refused argument, an attribute that is not there stay what they
    are. Told here, because a cause does not travel with its exception.
    """
    try:
        yield
    except TrainingError as error:
        if isinstance(error.__cause__, OSError):
            raise
        raise FinalError(str(error)) from error
    except _OF_CODE as error:
        if isinstance(error, OSError) or _after_outage(error):
            raise
        raise CodeError(f"{type(error).__name__}: {first_line(error)}") from error
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise FinalError(out_of_memory("lower --batch_size or --seq_len", error)) from error


def raise_if_final(failures: Mapping[int, BaseException], hosts: Mapping[int, str] = NO_HOSTS) -> None:
    """Raises the FinalError that a rank has left, if any has.

    An error of code beside a rank that died is none: it may come of that.
    """
    causes = {rank: _unwrap(failure) for rank, failure in failures.items()}
    passing = CodeError if any(map(_is_ray_s, causes.values())) else ()
    final = {
        rank: cause
        for rank, cause in causes.items()
        if isinstance(cause, FinalError) and not isinstance(cause, passing)
    }
    if final:
        raise FinalError(cause_of(final, hosts)) from next(iter(final.values()))


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
    where = f"rank {rank} on {hosts[rank]}" if rank in hosts else f"rank {rank}"
    if isinstance(cause, CodeError):
        return f"{where}: {cause}"
    if isinstance(cause, TrainingError):
        return str(cause)
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
        return int(isinstance(cause, CodeError)), rank
    if _says_peer_lost(cause):
        return 3, rank
    return (2 if _is_ray_s(cause) else 1), rank


def _says_peer_lost(cause: BaseException) -> bool:
    return not _is_ray_s(cause) and _PEER_LOST.search(str(cause)) is not None


def _is_ray_s(cause: BaseException) -> bool:
    """As of a rank that died."""
    return type(cause).__module__.startswith("ray.")


def _after_outage(error: BaseException) -> bool:
    """Whether it was met on the way out from what may be an outage."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is None:
        return False
    return _may_be_outage(before) or _after_outage(before)


def _may_be_outage(error: BaseException) -> bool:
    if isinstance(error, OSError) or (isinstance(error, RuntimeError) and not isinstance(error, _OF_CODE)):
        return True
    if not type(error).__module__.startswith("httpx"):  # the hub's client, whose errors are no OSErrors
        return False
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status is None or status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _unwrap(error: BaseException) -> BaseException:
    """Ray Train wraps what a rank raised in an exception whose text is the whole traceback."""
    inner = getattr(error, "_base_exc", None)
    return inner if isinstance(inner, BaseException) else error
