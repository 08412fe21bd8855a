"""PURE: the accounts that a stack may be in, by its own setting."""

from collections.abc import Callable, Sequence
from typing import Any

from capacity.structured import structured
from workload.errors import BadInputError, ReportedError

SETTING = "aws:allowedAccountIds"


def allowed_accounts(setting: Callable[[str], Any]) -> tuple[str, ...]:
    """As a stack's own settings name them, empty for any; `setting` gives one by its full name, None where not set."""
    given = structured(setting(SETTING))
    if isinstance(given, str | int) and given:
        given = [given]
    given = given or []
    if not isinstance(given, list) or not all(isinstance(one, str | int) for one in given):
        raise BadInputError(f"{SETTING}: '{given}' is no list of accounts")
    return tuple(f"{one:012d}" if isinstance(one, int) else one for one in given)


def check_allowed(account: str, allowed: Sequence[str]) -> None:
    """Raises ReportedError for an account that is none of `allowed`, where some are."""
    if allowed and account not in allowed:
        raise ReportedError(
            f"these credentials are of account {account}, and {SETTING} has {', '.join(allowed)}: nothing was changed. "
            "Sign in to one of those (AWS_PROFILE, or aws:profile in the stack's file) and run it again"
        )
