"""Handlers of signals, but never of one that this process was started to ignore: `nohup` says so of a closed terminal,
a shell without job control of Ctrl-C behind an `&`.
"""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


def heeded(numbers: Iterable[signal.Signals]) -> tuple[signal.Signals, ...]:
    """Those of them that are not ignored."""
    return tuple(number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN)


@contextmanager
def handled(numbers: Iterable[signal.Signals], handler: Callable[[int, object], None]) -> Iterator[None]:
    """`handler` answers those that are heeded, until the end; then what did before. Of the main thread alone."""
    before = {number: signal.signal(number, handler) for number in heeded(numbers)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
