"""What the engine did when: the steps of an `up --json`, told by their begin and end on this machine's clock."""

import json
import time
from collections.abc import Iterable

from benchmarks.parts.critical_path import Span


def followed(lines: Iterable[str]) -> tuple[dict[str, Span], list[str]]:
    """Reads to the end; spans by URN, and what the engine called an error."""
    began: dict[str, float] = {}
    spans: dict[str, Span] = {}
    errors: list[str] = []
    for line in lines:
        now = time.monotonic()
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if before := event.get("resourcePreEvent"):
            began[before["metadata"]["urn"]] = now
        elif after := event.get("resOutputsEvent"):
            urn = after["metadata"]["urn"]
            spans[urn] = Span(began=began.get(urn, now), ended=now)
        elif (said := event.get("diagnosticEvent")) and said.get("severity") == "error":
            errors.append(said["message"])
    return spans, errors
