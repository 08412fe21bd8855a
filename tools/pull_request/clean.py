"""PURE: texts without what a public page must not have."""

import re
from collections.abc import Callable, Mapping

from workload.redaction import Redactor

# Whatever an environment calls so.
_SECRET = ("TOKEN", "SECRET", "PASSPHRASE", "PASSWORD", "ACCESS_KEY")
_ACCOUNT = re.compile(r"(?<!\d)\d{12}(?!\d)")


def cleaner(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Takes the environment's secrets and AWS account numbers out of a text."""
    redact = Redactor(value for name, value in environment.items() if any(part in name.upper() for part in _SECRET))
    return lambda text: _ACCOUNT.sub("*" * 12, redact(text))
