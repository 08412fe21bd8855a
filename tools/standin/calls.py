"""Every operation that a stand-in account saw: calls.jsonl in its folder, one JSON object a line."""

import json
import os
from pathlib import Path
from typing import Any

FILE = "calls.jsonl"


def write(folder: Path, **call: Any) -> None:
    """Appends one line: type, operation, urn, id, at and seconds on the modelled clock, and error where it failed."""
    line = json.dumps(call, sort_keys=True) + "\n"
    descriptor = os.open(folder / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def read(folder: Path) -> list[dict[str, Any]]:
    """All calls in the order in which they ended."""
    path = folder / FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
