"""`efactl status`: shown once, or again and again until it is interrupted."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from efactl.exit_codes import ExitCode
from efactl.log_output import quiet_pipe
from efactl.stack import Stack
from efactl.status.asking import why_unreachable
from efactl.status.gather import document
from efactl.status.screen import lines

WATCH_S = 5.0
# To the upper left corner; then each line to its end, and the rest of the screen, so that nothing flickers.
_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


def show(stack: Stack, *, as_json: bool, watch: bool) -> ExitCode:
    """OK also where parts are unreachable, and where a watch was ended; FAILED where even the state is.

    A reader that goes away ends it too.
    """
    try:
        return _watched(stack, as_json=as_json) if watch else _once(stack, as_json=as_json)
    except BrokenPipeError:
        quiet_pipe()
        return ExitCode.OK


def _once(stack: Stack, *, as_json: bool) -> ExitCode:
    with _ending_children():
        whole = document(stack)
    _print(json.dumps(whole, indent=2) if as_json else "\n".join(lines(whole)))
    return _code(whole)


def _watched(stack: Stack, *, as_json: bool) -> ExitCode:
    """In a terminal each screen takes the place of the one before; elsewhere they follow each other."""
    redraw = sys.stdout.isatty() and not as_json
    code = ExitCode.OK
    try:
        if redraw:
            _print(f"{_HOME}{_REST}", end="")
        while True:
            with _ending_children():
                whole = document(stack)
            code = _code(whole)
            shown = lines(whole)
            if as_json:
                _print(json.dumps(whole))
            elif redraw:
                _print(_HOME + "".join(f"{line}{_REST_OF_LINE}\n" for line in shown) + _REST, end="")
            else:
                _print("\n".join([*shown, ""]))
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        return code


def _code(whole: dict[str, Any]) -> ExitCode:
    return ExitCode.FAILED if why_unreachable(whole["cost"]) else ExitCode.OK


def _print(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)


@contextmanager
def _ending_children() -> Iterator[None]:
    """Ends what a question that had no answer in time has left: a pulumi, a program that brings credentials."""
    before = set(psutil.Process().children())
    try:
        yield
    finally:
        for child in set(psutil.Process().children()) - before:
            child.terminate()
