"""PURE: how long GPU nodes may live, as the fixed time at which they end."""

import re
from datetime import UTC, datetime, timedelta

from infra.eks_settings import end_of
from workload.errors import BadInputError

# A bring-up takes a quarter of an hour, and a first job pulls its image: less than this ends it before it began.
SHORTEST = timedelta(minutes=30)
LONGEST = timedelta(days=14)
_STEP = timedelta(minutes=5)
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_DURATION = re.compile(r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?")


def duration(text: str) -> timedelta:
    """Of text like 90m, 4h, 1h30m or 2d. Raises BadInputError for other text, and outside SHORTEST to LONGEST."""
    found = _DURATION.fullmatch(text.strip())
    given = {unit: int(number) for unit, number in found.groupdict().items() if number} if found else {}
    if not given:
        raise BadInputError(f"'{text}' is no length of time: write it like 90m, 4h, 1h30m or 2d")
    try:
        length = timedelta(**{_UNITS[unit]: number for unit, number in given.items()})
    except OverflowError:
        length = timedelta.max
    if not SHORTEST <= length <= LONGEST:
        raise BadInputError(
            f"'{text}' is not between {SHORTEST.seconds // 60}m and {LONGEST.days}d: a bring-up alone takes a quarter "
            "of an hour, and a guard that is weeks away guards nothing"
        )
    return length


def until(text: str, *, now: datetime) -> str:
    """The value of `ttlUntil` for a duration from `now` (aware) on: UTC, up to the next five minutes."""
    exact = now.astimezone(UTC) + duration(text)
    over = (exact - datetime.min.replace(tzinfo=UTC)) % _STEP
    return (exact + (_STEP - over if over else timedelta())).strftime("%Y-%m-%dT%H:%M:%SZ")


def left(until: str, *, now: datetime) -> timedelta | None:
    """How long nodes with this `ttlUntil` live on: none, or less, once it has passed. None for one that is empty, or no
    time: that the program refuses itself."""
    try:
        return end_of(until) - now
    except ValueError:
        return None


def is_over(until: str, *, now: datetime) -> bool:
    rest = left(until, now=now)
    return rest is not None and rest <= timedelta()
