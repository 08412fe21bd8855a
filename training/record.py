"""The one machine-readable line a job ends with."""

import copy
import json
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from training.errors import first_line
from training.job_config import JobConfig
from training.run_directory import RunDirectory

MARK = "RAY_TRAIN_EFA_RECORD"


@dataclass
class JobReport:
    """Prints the error, if any, and the record, once: the driver's main thread and its deadline race for it.

    A kind of job adds what its own ranks tell.
    """

    schema: ClassVar[str]

    started_at: float
    config: JobConfig | None = None
    world_size: int = 0
    # Ray's ids of the nodes that were dead when the driver joined the cluster.
    lost_before: frozenset[str] = frozenset()
    timings: dict[str, float] = field(default_factory=dict)
    _told: threading.Lock = field(default_factory=threading.Lock)
    _printed: threading.Event = field(default_factory=threading.Event)

    def own_fields(self) -> dict[str, Any]:
        """The record's fields of this kind, as they are before any rank has told anything."""
        raise NotImplementedError

    def add_own(self, record: dict[str, Any], run: RunDirectory) -> None:
        """Fill them, as far as the ranks got: `record` has the attempts already."""
        raise NotImplementedError

    def before_record(self, record: dict[str, Any]) -> str:
        """Lines to print before the record, each with its line feed."""
        return ""

    def finish(self, error: str | None, *, stored_within_s: float | None = None) -> bool:
        """False where the record is being printed, or has been.

        Storage that does not answer within `stored_within_s` is left out of it; None waits as long as it takes.
        """
        if not self._told.acquire(blocking=False):
            return False
        if error is not None:
            print(f"[error] {error}", flush=True)
        record = self._record(error, stored_within_s)
        line = f"{MARK} {json.dumps(record, separators=(',', ':'), allow_nan=False)}"
        # One write, begun on a line of its own: Ray's thread prints the ranks' last lines into the same file meanwhile.
        sys.stdout.write(f"\n{self.before_record(record)}{line}\n")
        sys.stdout.flush()
        self._printed.set()
        return True

    def printed(self, *, within_s: float) -> bool:
        return self._printed.wait(within_s)

    def _record(self, error: str | None, stored_within_s: float | None) -> dict[str, Any]:
        record: dict[str, Any] = {
            "schema": self.schema,
            "run_id": self.config.run_id if self.config else "",
            "status": "succeeded" if error is None else "failed",
            "error": error,
            "arguments": self.config.as_json() if self.config else {},
            "world_size": self.world_size,
            "attempts": [],
            **self.own_fields(),
            "timings": {},
        }
        if self.config is not None:
            if stored_within_s is None:
                self._read_stored(record, self.config)
            else:
                record = self._with_stored(record, self.config, stored_within_s)
        record["timings"] |= self.timings | {"total_s": time.time() - self.started_at}
        return record

    def _with_stored(self, record: dict[str, Any], config: JobConfig, within_s: float) -> dict[str, Any]:
        """In a thread of its own, and a record too: it may be at it when this process ends."""
        whole = copy.deepcopy(record)
        reading = threading.Thread(target=self._read_stored, args=(whole, config), daemon=True)
        reading.start()
        reading.join(within_s)
        if not reading.is_alive():
            return whole
        self._lacks(config, f"--storage_path {config.storage_path} has not answered for {within_s:g} s")
        return record

    def _read_stored(self, record: dict[str, Any], config: JobConfig) -> None:
        try:
            self._add_what_is_stored(record, RunDirectory.of(config))
        except (OSError, ValueError) as unreadable:
            self._lacks(config, first_line(unreadable))

    def _lacks(self, config: JobConfig, why: str) -> None:
        print(f"[{config.mark}] the record lacks what the run stored: {why}", flush=True)

    def _add_what_is_stored(self, record: dict[str, Any], run: RunDirectory) -> None:
        """Evidence and figures the ranks left in the run's directory: for a failed run as far as it got."""
        record["attempts"] = [
            {
                "attempt": number,
                "started_at": run.attempt_start(number)["started_at"],
                "ranks": run.testimonies(number),
            }
            for number in run.attempts()
        ]
        if record["attempts"]:
            record["timings"]["worker_group_s"] = run.attempt_start(record["attempts"][0]["attempt"])["worker_group_s"]
        self.add_own(record, run)
