"""The process a dynamic provider runs in: readable errors, interruption, and not outliving the engine.

Pulumi 3.27x's Python provider has a `Cancel` that does nothing and stays alive when the engine is killed; a `create`
that follows a job for an hour needs both answered.
"""

import contextlib
import functools
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

from workload.errors import ReportedError
from workload.job_spec import digest_of

P = ParamSpec("P")
R = TypeVar("R")

interrupt = threading.Event()
_watching = threading.Lock()
_finishing = threading.Lock()


def say(text: str) -> None:
    """Prints one line; the engine shows a provider's standard output live, as information on the stack.

    With the engine gone nobody reads it: that must not keep its caller from putting things in order.
    """
    with contextlib.suppress(OSError):
        print(text, flush=True)


def reported(method: Callable[P, R]) -> Callable[P, R]:
    """Lets a provider method fail with its message alone: the servicer sends `traceback.format_exc()` to the user."""

    @functools.wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        _follow_engine()
        try:
            result = method(*args, **kwargs)
        except ReportedError as error:
            sys.tracebacklimit = 0
            raise type(error)(str(error)) from None
        except BaseException:
            sys.tracebacklimit = 1000
            raise
        return result

    return wrapper


@contextlib.contextmanager
def finishing() -> Iterator[None]:
    """Work that must come to its end, its undoing included, before this process follows a killed engine."""
    with _finishing:
        yield


def differing(olds: Mapping[str, Any], news: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    """Which of `keys` have another value, or one that is not known yet, as the engine hands both to a `diff`."""
    return [key for key in keys if not _known(news.get(key)) or digest_of(olds.get(key)) != digest_of(news.get(key))]


def _known(value: Any) -> bool:
    from pulumi.output import Unknown

    if isinstance(value, Mapping):
        return all(_known(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(_known(item) for item in value)
    return not isinstance(value, Unknown)


def engine_alive() -> bool:
    """Whether the engine that started this provider still answers; True outside a provider process."""
    address = _engine_address()
    if address is None:
        return True
    try:
        socket.create_connection(address, timeout=2).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    return True


def _engine_address() -> tuple[str, int] | None:
    if not hasattr(sys.modules.get("__main__"), "DynamicResourceProviderServicer") or len(sys.argv) < 2:
        return None
    host, _, port = sys.argv[1].rpartition(":")
    return (host, int(port)) if port.isdigit() else None


def _follow_engine() -> None:
    """Once a process: hears the engine's Cancel, and ends the process when the engine is gone."""
    if _engine_address() is None or not _watching.acquire(blocking=False):
        return
    servicer = sys.modules["__main__"].DynamicResourceProviderServicer

    def cancel(self, request, context):  # type: ignore[no-untyped-def]
        from google.protobuf import empty_pb2  # type: ignore[import-untyped]

        from workload import provider_process

        provider_process.interrupt.set()
        return empty_pb2.Empty()

    # gRPC holds a bound method since the server started; its code is what can still be exchanged.
    servicer.Cancel.__code__ = cancel.__code__
    threading.Thread(target=_exit_with_engine, daemon=True).start()


def _exit_with_engine() -> None:
    while engine_alive():
        time.sleep(1)
    with _finishing:
        os._exit(1)
