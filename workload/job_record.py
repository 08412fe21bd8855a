"""PURE: the one machine-readable line in which a job reports what it did."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

MARK = "RAY_TRAIN_EFA_RECORD "
SCHEMA = "ray-train-efa/job-record/1"
REQUIRED = ("schema", "run_id", "status", "arguments", "world_size", "attempts", "losses", "eval", "timings")


class RecordCollector:
    """Watches a log's lines for the record of one run, of one schema; the last complete one counts.

    Only the driver's own lines begin with the mark: Ray puts a prefix before everything that a rank prints.
    """

    def __init__(self, submission_id: str, *, schema: str = SCHEMA, required: Sequence[str] = REQUIRED) -> None:
        self._submission_id = submission_id
        self._schema, self._required = schema, required
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
        missing = [key for key in self._required if not isinstance(record, dict) or key not in record]
        if missing:
            self.problem = f"its record lacks {', '.join(missing)}"
        elif record["schema"] != self._schema:
            self.problem = f"its record has schema {record['schema']!r}; this version reads {self._schema!r}"
        elif record["run_id"] != self._submission_id:
            self.problem = f"its record is that of run {record['run_id']!r}"
        elif record["status"] != "succeeded":
            self.problem = f"its record says {record['status']!r}: {record.get('error')}"
        else:
            self.record = record
