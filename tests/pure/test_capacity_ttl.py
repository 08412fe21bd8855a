"""A length of time on the command line becomes a fixed time in the stack."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.ttl import duration, until
from infra.eks_settings import end_of
from workload.errors import BadInputError

NOW = datetime(2026, 12, 1, 12, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("30m", timedelta(minutes=30)),
        ("90m", timedelta(hours=1, minutes=30)),
        ("4h", timedelta(hours=4)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("2d", timedelta(days=2)),
        ("1d12h", timedelta(hours=36)),
        (" 4h ", timedelta(hours=4)),
    ],
)
def test_a_duration_is_read_as_it_is_said(text: str, length: timedelta) -> None:
    assert duration(text) == length


@pytest.mark.parametrize("text", ["", "4", "h", "4 h", "-4h", "4h-", "1.5h", "30m1h", "4hours", "forever", "4H"])
def test_what_is_no_duration_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(BadInputError, match="write it like 90m, 4h, 1h30m or 2d"):
        duration(text)


@pytest.mark.parametrize("text", ["0h", "29m", "15d", "337h", "999999999999d"])
def test_a_guard_that_comes_at_once_or_in_weeks_is_none(text: str) -> None:
    with pytest.raises(BadInputError, match=r"not between 30m and 14d"):
        duration(text)


def test_the_time_is_utc_and_no_earlier_than_asked_for() -> None:
    assert until("4h", now=NOW) == "2026-12-01T16:05:00Z"
    assert until("4h", now=NOW.replace(minute=5, second=0)) == "2026-12-01T16:05:00Z"
    assert until("4h", now=NOW.astimezone(timezone(timedelta(hours=-8)))) == "2026-12-01T16:05:00Z"


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    st.datetimes(min_value=datetime(2026, 1, 1), max_value=datetime(2030, 1, 1)),
    st.integers(min_value=30, max_value=20_160),
)
def test_rounding_never_shortens_and_adds_less_than_five_minutes(now: datetime, minutes: int) -> None:
    aware = now.replace(tzinfo=UTC)
    found = end_of(until(f"{minutes}m", now=aware))
    assert timedelta() <= found - aware - timedelta(minutes=minutes) < timedelta(minutes=5)
    assert found.minute % 5 == 0
    assert found.second == 0
