"""The secret values that a stack's settings hold, so that nothing which is shown contains one."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from efactl.stack import Stack


def configured_secrets(stack: Stack) -> list[str]:
    """Asks pulumi only where the stack's file has any. Raises ReportedError where they cannot be read."""
    if not _holds_secret(yaml.safe_load(stack.file.read_text(encoding="utf-8"))):
        return []
    settings = json.loads(stack.answer(["config", "--show-secrets", "--json"]))
    secret = [one for one in settings.values() if one.get("secret")]
    return [found for one in secret for found in texts_in(one.get("objectValue", one.get("value")))]


def texts_in(value: Any) -> Iterator[str]:
    """Every text of a JSON value, keys left out."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, str):
        yield value


def _holds_secret(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "secure" in value or any(_holds_secret(item) for item in value.values())
    return isinstance(value, list) and any(_holds_secret(item) for item in value)
