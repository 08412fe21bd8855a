"""What the engine says of one run of the Pulumi CLI in the file of its `--event-log`."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def events(path: Path) -> Iterator[dict[str, Any]]:
    """None of them where there is no such file; a line that an interruption cut tells nothing."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        yield from in_lines(lines)


def in_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """One a line; what is none is passed over."""
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
