"""A record on disk: written whole or not at all."""

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workload.errors import ReportedError


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Raises ReportedError where it cannot be."""
    temporary = path.with_suffix(".json.new")
    try:
        temporary.write_text(json.dumps(record, indent=2, sort_keys=False) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise ReportedError(f"the run record {path} cannot be written: {error}") from error


def iso(moment: float) -> str:
    """Unix seconds as UTC."""
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat(timespec="milliseconds")
