"""PURE: what kinds of refusals there are, and what follows from each."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

# Where the same request may still succeed: in another zone, in another region, here in a moment, or nowhere as it is.
Retry = Literal["next-zone", "next-region", "wait", "stop"]


class Cause(StrEnum):
    CAPACITY = "capacity"
    QUOTA = "quota"
    PERMISSION = "permission"
    CREDENTIALS = "credentials"
    SETTING = "setting"
    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Sorted:
    """Why AWS refused. `what_to_do` is a sentence without its full stop; `code` is the code or words it is known by."""

    cause: Cause
    retry: Retry
    what_to_do: str
    code: str = ""
