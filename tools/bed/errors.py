"""What goes wrong with the test bed."""

from workload.errors import ReportedError


class BedError(ReportedError):
    """The bed cannot start or do what was asked; the message says what is wrong and what to do."""


# Shown as `traceback.format_exc()` text where a provider raises it: see workload.errors.
BedError.__module__ = "builtins"
