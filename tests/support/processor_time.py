"""What a command takes of the processors, which does not depend on who else is busy there."""

import resource
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def measured(command: Callable[[], T]) -> tuple[T, float]:
    """The answer of what runs processes and waits for them, and their seconds of processor time."""
    before = _of_children()
    answer = command()
    return answer, _of_children() - before


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
