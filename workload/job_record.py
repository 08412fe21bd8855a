"""PURE: the one machine-readable line in which a training job reports what it did."""

import json
from collections.abc import Mapping
from typing import Any

MARK = "RAY_TRAIN_EFA_RECORD "
SCHEMA = "ray-train-efa/job-record/1"
REQUIRED = ("schema", "run_id", "status", "arguments", "world_size", "attempts", "losses", "eval", "timings")


class RecordCollector:
    """Watches a log's lines for the record of one run; the last complete one counts.

    Only the driver's own lines begin with the mark: Ray puts a prefix before everything that a rank prints.
    """

    def __init__(self, submission_id: str) -> None:
        self._submission_id = submission_id
        self.record: Mapping[str, Any] | None = None
        self.problem = "its log holds no record line (the driver prints one at its end)"

    def line(self, line: str) -> None:
        if not line.startswith(MARK):
            return
        try:
            record = json.loads(line.removeprefix(MARK))
        except ValueError as error:
            self.problem = f"its record line is not JSON ({error}): the line was cut"
            return
        missing = [key for key in REQUIRED if key not in record] if isinstance(record, dict) else list(REQUIRED)
        if missing:
            self.problem = f"its record lacks {', '.join(missing)}"
        elif record["schema"] != SCHEMA:
            self.problem = f"its record has schema {record['schema']!r}; this version reads {SCHEMA!r}"
        elif record["run_id"] != self._submission_id:
            self.problem = f"its record is that of run {record['run_id']!r}"
        elif record["status"] != "succeeded":
            self.problem = f"its record says {record['status']!r}: {record.get('error')}"
        else:
            self.record = record


def transport_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a record that the transport verdict needs: the last attempt's ranks."""
    attempts = record["attempts"]
    last: Mapping[str, Any] = attempts[-1] if attempts else {"attempt": 0, "ranks": []}
    return {
        "attempt": last["attempt"],
        "worldSize": record["world_size"],
        "ranks": [
            {
                "rank": rank["rank"],
                "node": rank["node_id"],
                "host": rank.get("hostname") or "",
                "pid": rank.get("pid") or 0,
                "backend": rank.get("backend") or "",
                "device": rank.get("device") or "",
            }
            for rank in last["ranks"]
        ],
    }
