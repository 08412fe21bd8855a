"""Questions that are put at the same time, and given up where nothing is heard any more."""

import queue
import textwrap
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from capacity.answers import Missing
from capacity.aws import AWS_ERRORS, AwsRefusedError, sorted_error, told_by

Key = tuple[str, str]

# A region that answers needs a second or two, with AWS's longest pause after throttling some ten.
PATIENCE_S = 20.0
_LONGEST = 200


class AtOnce:
    """Answers by (group, part), each a value or Missing. A group that is silent for `patience` seconds is given up;
    with math.inf none is.

    The threads are daemons: one that hangs in a socket keeps no process alive.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.answers: dict[Key, Any] = {}
        self._heard: dict[str, float] = {}
        self._open: set[Key] = set()
        self._said: queue.SimpleQueue[tuple[str, str, Any]] = queue.SimpleQueue()

    def expect(self, group: str, parts: Iterable[str]) -> None:
        """Of the one thread that waits."""
        self._heard[group] = time.monotonic()
        self._open |= {(group, part) for part in parts}

    def run(self, what: Callable[[], None]) -> None:
        threading.Thread(target=what, daemon=True).start()

    def ask(self, group: str, part: str, question: Callable[[], Any]) -> None:
        """Answers in the calling thread what was expected."""
        self._said.put((group, part, answer_of(question)))

    def page(self, group: str) -> None:
        """A long answer goes on."""
        self._said.put((group, "", None))

    def of(self, group: str) -> dict[str, Any]:
        """Its answers so far, by part."""
        return {part: value for (of, part), value in self.answers.items() if of == group}

    def settled(self, group: str) -> bool:
        return all(key[0] != group for key in self._open)

    def waiting(self) -> list[str]:
        """The groups that still owe an answer."""
        return sorted({group for group, _ in self._open})

    def wait(self, *, seconds: float) -> str:
        """Up to that long, for the next word; the group that it settled, else empty. Gives up silent groups."""
        try:
            group, part, value = self._said.get(timeout=seconds)
        except queue.Empty:
            return self._give_up()
        self._heard[group] = time.monotonic()
        # What comes after it was given up is too late.
        if (group, part) in self._open:
            self._open.discard((group, part))
            self.answers[group, part] = value
            return group if self.settled(group) else ""
        return self._give_up()

    def _give_up(self) -> str:
        now = time.monotonic()
        for group in self.waiting():
            if now - self._heard[group] > self.patience:
                silent = Missing(
                    code="NoAnswer", text=f"nothing was heard for {self.patience:g} s: it is down, or cut off from here"
                )
                for key in [key for key in self._open if key[0] == group]:
                    self._open.discard(key)
                    self.answers[key] = silent
                return group
        return ""


def answer_of(question: Callable[[], Any]) -> Any:
    """What it returns, or the reason why AWS did not say."""
    try:
        return question()
    except (*AWS_ERRORS, AwsRefusedError) as error:
        return missing(error)
    except Exception as error:  # an answer of a shape that nobody expected must not take the other regions with it
        return Missing(code=type(error).__name__, text=f"AWS's answer could not be read: {error}")


def missing(error: Exception) -> Missing:
    if isinstance(error, AwsRefusedError):
        return Missing(code=error.sorted.code, text=str(error))
    code, message = told_by(error)
    # A gateway's page says no more in its end than in its beginning.
    short = textwrap.shorten(message, _LONGEST, placeholder=" ...")
    return Missing(code=code, text=f"{short}: {sorted_error(error).what_to_do}")
