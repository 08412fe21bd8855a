"""Errors whose message is all that the reader needs."""


class ReportedError(Exception):
    """Says what is wrong, with which value, and what to do about it; shown without a traceback."""


class BadInputError(ReportedError):
    """What was asked for cannot be; nothing has been done."""


class RunInterruptedError(ReportedError):
    """The engine was asked to stop while work that goes on elsewhere was being followed."""


# A provider's errors reach the user as `traceback.format_exc()` text, which puts a class's module before its name.
ReportedError.__module__ = BadInputError.__module__ = RunInterruptedError.__module__ = "builtins"
