"""PURE: whether an account is one that a stack's settings allow."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from workload.errors import ReportedError

SETTING = "aws:allowedAccountIds"


def allowed_accounts(value: Any) -> tuple[str, ...]:
    """From the setting as a stack's file has it: a list, or its JSON text; empty allows every account."""
    if isinstance(value, str):  # as `pulumi config set` leaves it without --path
        with suppress(ValueError):
            value = json.loads(value)
    if value is None or value == "":
        return ()
    found = [value] if isinstance(value, (str, int)) else list(value)
    return tuple(f"{one:012d}" if isinstance(one, int) else str(one) for one in found if not isinstance(one, Mapping))


def check_allowed(account: str, allowed: Sequence[str]) -> None:
    """Raises ReportedError for an account that is none of `allowed`, where some are."""
    if allowed and account not in allowed:
        raise ReportedError(
            f"these credentials are of account {account}, and {SETTING} has {', '.join(allowed)}: nothing was done. "
            "Sign in to one of those (AWS_PROFILE, or aws:profile in the stack's file) and run it again"
        )
