"""PURE: a setting that is a list or a map, as a stack's file has it."""

import json
from contextlib import suppress
from typing import Any


def structured(value: Any) -> Any:
    """The same, read where it is JSON text, as `pulumi config set` leaves it without --path; other text as it is."""
    if isinstance(value, str):
        with suppress(ValueError):
            return json.loads(value)
    return value
