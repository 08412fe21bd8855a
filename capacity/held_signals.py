"""Interruptions put off while something is in hand that must not be left behind."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workload.signal_handlers import handled

_PUT_OFF = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_signals(say: Callable[[str], None], why: str) -> Iterator[Callable[[], bool]]:
    """Ctrl-C, TERM and a closed terminal end what is within only when it is done, by KeyboardInterrupt.

    One that is ignored stays so. Yields whether one has come. In a thread that is not the main one nothing is put off:
    no signal arrives there.
    """
    came: list[int] = []

    def note(number: int, _frame: object) -> None:
        if not came:
            say(why)
        came.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    with handled(_PUT_OFF, note):
        yield lambda: bool(came)
    if came:
        raise KeyboardInterrupt
