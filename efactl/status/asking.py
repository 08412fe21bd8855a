"""Questions asked side by side, each with a time limit of its own: the answer, or why there is none."""

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from workload.errors import ReportedError

T = TypeVar("T")


class UnreachableError(Exception):
    """Why a question has no answer, in words that can be shown."""


class Asked(Generic[T]):
    """Asked in a thread from its construction on; `limit_s` runs from there too."""

    def __init__(self, question: Callable[[], T], *, limit_s: float) -> None:
        self._limit_s = limit_s
        self._until = time.monotonic() + limit_s
        self._answered = threading.Event()
        self._answer: list[T] = []
        self._reason = ""
        # A daemon: what hangs in it keeps no command from its end.
        threading.Thread(target=self._ask, args=(question,), name="status-question", daemon=True).start()

    def answer(self) -> T:
        """Raises UnreachableError at the limit, or with what the question failed by."""
        if not self._answered.wait(max(0.0, self._until - time.monotonic())):
            raise UnreachableError(f"no answer within {self._limit_s:g} s")
        if not self._answer:
            raise UnreachableError(self._reason)
        return self._answer[0]

    def _ask(self, question: Callable[[], T]) -> None:
        try:
            self._answer.append(question())
        except (ReportedError, UnreachableError) as error:
            self._reason = str(error)
        except Exception as error:
            # A thread's error reaches nobody, and one part's must not hide the others.
            self._reason = f"{type(error).__name__}: {error}"
        finally:
            self._answered.set()


def or_unreachable(part: Callable[[], Any]) -> Any:
    """The part, or the reason in its place."""
    try:
        return part()
    except UnreachableError as error:
        return unreachable(str(error))


def unreachable(reason: str) -> dict[str, str]:
    return {"unreachable": reason}


def why_unreachable(part: Any) -> str:
    """Empty for a part that was answered."""
    return str(part["unreachable"]) if isinstance(part, dict) and set(part) == {"unreachable"} else ""
