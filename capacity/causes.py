"""PURE: sorts every refusal by what it means for the next step: another zone, another region, a wait, or a stop."""

import re
from dataclasses import asdict

from capacity.cause import Cause, Retry, Sorted
from capacity.cause_tables import CODES, PHRASES, QUOTA, SETTING, UNAVAILABLE, UNKNOWN, Rule

__all__ = ["Cause", "Retry", "Sorted", "cause_of", "in_text"]

# Names of their own in any text; single words (Unsupported, Throttling) count as codes only where a code is told.
_CODE = re.compile(r"\b[A-Z][A-Za-z0-9]*[a-z0-9][A-Z][A-Za-z0-9]*(?:\.[A-Z][A-Za-z]+)*\b")
_TOLD = re.compile(r"api error ([\w.]+)|\(([\w.]+)\) when calling|\bcode: \"?([\w.]+)")
# A health issue or an activity begins with its code.
_FOREMOST = re.compile(r"^\W*([A-Z][\w.]+) ?[:-] ")
_CREATE_FAILED = re.compile(r"capacity reservation \S+ (?:to )?create.*unexpected state '(?:failed|cancelled)'", re.I)
# Words of other programs' errors too: codes only where they are told as one.
_COMMON = {"ValidationError", "ConnectionError", "InvalidRequest", "InvalidParameter", "InvalidInput", "InvalidToken"}
# A wrapper's code, which says nothing by itself.
_WRAPPERS = ("AsgInstanceLaunchFailures", "Client", "Server")
# Of several causes in one text, that which ends the search first: what the next zone would meet again.
_GRAVEST = (
    Cause.CREDENTIALS,
    Cause.PERMISSION,
    Cause.QUOTA,
    Cause.CAPACITY,
    Cause.SETTING,
    Cause.UNAVAILABLE,
    Cause.THROTTLED,
)


def cause_of(code: str, message: str) -> Sorted:
    """By an error's code, or an exception's class name, and its message; never fails.

    Words count before the code: AWS puts several things into one code (AccessDenied, AuthFailure, Unsupported,
    AsgInstanceLaunchFailures).
    """
    name = code.removeprefix("Client.").removeprefix("Server.")
    told = _by_phrase(message)
    if told is not None:
        return _sorted(told, name or "words")
    if name in CODES:
        return _sorted(CODES[name], name)
    if name in _WRAPPERS or not name:
        return in_text(message) or _sorted(UNKNOWN, name)
    return _sorted(_by_shape(name), name)


def in_text(text: str) -> Sorted | None:
    """The gravest cause that an engine's output, a health issue or a scaling activity names; None where there is none.

    A line each, since one text can tell of several resources.
    """
    found = [one for line in text.splitlines() for one in [_in_line(line)] if one is not None]
    return min(found, key=lambda one: _GRAVEST.index(one.cause), default=None)


def _in_line(line: str) -> Sorted | None:
    names = [name for groups in _TOLD.findall(line) for name in groups if name]
    names += [name for name in (*_FOREMOST.findall(line), *_CODE.findall(line)) if name not in _COMMON]
    known = [name for name in names if name.removeprefix("Client.") in CODES]
    told = _by_phrase(line)
    if told is not None:
        return _sorted(told, known[0] if known else "words")
    if _CREATE_FAILED.search(line):
        return _sorted(CODES["InsufficientInstanceCapacity"], "words")
    if known:
        code = known[0].removeprefix("Client.")
        return _sorted(CODES[code], code)
    # Only what is told as a code has a code's shape; what a shape does not tell either is no cause yet.
    shaped = ((_by_shape(name), name) for groups in _TOLD.findall(line) for name in groups if name)
    return next((_sorted(rule, name) for rule, name in shaped if rule is not UNKNOWN), None)


def _by_phrase(message: str) -> Rule | None:
    low = " ".join(message.lower().split())
    return next((rule for words, rule in PHRASES if words.search(low)), None)


def _by_shape(name: str) -> Rule:
    """Codes follow patterns, and new ones come: InvalidSubnetID.NotFound, NatGatewayLimitExceeded."""
    if name.startswith("Invalid") or name.endswith((".NotFound", ".Malformed", ".Duplicate", "NotFoundException")):
        return SETTING
    if name.endswith(("LimitExceeded", "LimitExceededException", "QuotaExceeded")):
        return QUOTA
    if name.isdecimal() and name.startswith("5"):
        return UNAVAILABLE
    return UNKNOWN


def _sorted(rule: Rule, code: str) -> Sorted:
    return Sorted(**asdict(rule), code=code)
