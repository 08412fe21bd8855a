"""A job's lines on standard output: those asked for, without secrets and colour; a closed pipe is no error."""

import os
import sys
from collections.abc import Callable
from threading import Event

from workload.log_selection import Select, without_colour


class LogOutput:
    """`closed` is set once nobody reads any more; `count` counts the lines that were written.

    `at_once` flushes each line, as a reader who follows wants it.
    """

    def __init__(self, select: Select, redact: Callable[[str], str], *, at_once: bool) -> None:
        self._select, self._redact, self._at_once = select, redact, at_once
        self.closed = Event()
        self.count = 0

    def line(self, line: str) -> None:
        if self.closed.is_set():
            return
        try:
            for selected in self._select(without_colour(line.rstrip("\r\n"))):
                sys.stdout.write(f"{self._redact(selected)}\n")
                self.count += 1
            if self._at_once:
                sys.stdout.flush()
        except BrokenPipeError:
            self._close()

    def finish(self) -> None:
        if self.closed.is_set():
            return
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            self._close()

    def _close(self) -> None:
        self.closed.set()
        quiet_pipe()


def quiet_pipe() -> None:
    """What the interpreter flushes at its end has nobody to go to either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
