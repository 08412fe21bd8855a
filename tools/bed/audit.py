"""What the API server was asked, from its audit log."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def requests(log: Path, user_agent_prefix: str = "") -> Counter[str]:
    """How often each "verb resource" was asked; a watch counts once, though the log tells its start and its end."""
    counted: Counter[str] = Counter()
    seen: set[str] = set()
    for event in _events(log):
        if event["auditID"] in seen or not str(event.get("userAgent", "")).startswith(user_agent_prefix):
            continue
        seen.add(event["auditID"])
        what = event.get("objectRef") or {}
        resource = "/".join(str(what[key]) for key in ("resource", "subresource") if what.get(key))
        counted[f"{event['verb']} {resource or event['requestURI'].partition('?')[0]}"] += 1
    return counted


def _events(log: Path) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError), log.open() as lines:
        for line in lines:
            # The last line may be half written.
            with contextlib.suppress(ValueError):
                yield json.loads(line)
