"""The errors a user is meant to read."""

from collections.abc import Iterable


class TrainingError(Exception):
    """A failure with a cause the user can act on; its text is one line that names the argument and its value."""


class FinalError(TrainingError):
    """A rank's, that another attempt would meet again: it ends the run, whatever --max_failures allows."""


class CodeError(FinalError):
    """An error of code or settings that was met by one rank and written for nobody: "KeyError: 'x'"."""


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def fields(names: Iterable[str]) -> str:
    """A record's, which may be any text, on one line."""
    return ", ".join(name if name and name.isprintable() else ascii(name) for name in sorted(names)) or "none"
