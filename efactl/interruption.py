"""Ctrl-C that is not lost: one that strikes in a finalizer, of a connection that is closed, say, Python prints and
forgets."""

import signal
import sys
from types import FrameType

_AGAIN_S = 0.05


def keep() -> None:
    """From now on such a KeyboardInterrupt comes again a moment later, to whatever handles Ctrl-C then.

    Takes SIGALRM.
    """
    tell = sys.unraisablehook

    def forgotten(what: "sys.UnraisableHookArgs") -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            # Later: raised here it would be forgotten as well.
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        else:
            tell(what)

    def again(_number: int, _frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGALRM, again)
    sys.unraisablehook = forgotten
