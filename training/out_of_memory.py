"""A GPU whose memory was not enough, told with what would take less of it."""

import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from training.errors import TrainingError, first_line

_P = ParamSpec("_P")
_R = TypeVar("_R")


def is_out_of_memory(error: BaseException) -> bool:
    torch = sys.modules.get("torch")  # not imported here: the driver loads this file, and has no use for it
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


def out_of_memory(relief: str, error: BaseException) -> str:
    """What the user reads. `relief` says what to change."""
    return f"a GPU has not enough memory: {relief} ({first_line(error)})"


def telling(run: Callable[_P, _R], relief: str) -> Callable[_P, _R]:
    """`run`, which then raises TrainingError where it runs out of a GPU's memory."""

    def told(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return run(*args, **kwargs)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(out_of_memory(relief, error)) from error

    return told
