"""PURE: one run as a page tells of it: its record, its log, or the error that it ended with."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from report import reading
from report.log_facts import LogFacts
from workload import recorded_run
from workload.counting_attempt import counting_attempt

NOT_RECORDED = "not recorded because "


@dataclass(frozen=True, kw_only=True)
class Run:
    """`record` is empty for a run that left none. `log` is None where there is no log beside the record.

    `label` tells two runs of one page apart and is empty on a page of one. `bring_up` are the steps in which the stack
    came up, where they are known: name, seconds and modelSeconds (None without a model).
    """

    id: str
    record: Mapping[str, Any] = field(repr=False)
    log: LogFacts | None = field(default=None, repr=False)
    error: str | None = None
    label: str = ""
    bring_up: Sequence[Mapping[str, Any]] = field(default=(), repr=False)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The record; of a failed job what it reported itself, in the record's shape."""
        if self.record or self.log is None or self.log.failed is None:
            return self.record
        return _of_failed(self.log.failed)

    @property
    def named(self) -> str:
        return f"Run {self.label}" if self.label else "The run"

    @property
    def suffix(self) -> str:
        """What tells this run's tables from the other's."""
        return f", run {self.label}" if self.label else ""

    def tells(self, words: str) -> str:
        """Words about this run, among those about another."""
        return f"{self.named}: {words}" if self.label else words

    @property
    def measures_bandwidth(self) -> bool:
        return reading.at(self.record, "rows") is not None

    @property
    def seconds(self) -> float | None:
        """From the job's start to its end."""
        start, end = (self.moment(key) for key in ("startedAt", "endedAt"))
        return None if start is None or end is None else max(0.0, (end - start).total_seconds())

    def moment(self, *keys: str) -> datetime.datetime | None:
        return recorded_run.moment(reading.at(self.facts, *keys))

    def number(self, *keys: str) -> float | None:
        return reading.number(self.facts, *keys)

    def missing(self, why: str) -> str:
        """Why a part is not on the page: by how the run ended, else as given."""
        if self.record:
            return f"{NOT_RECORDED}{why}"
        if self.error is not None:
            return f"{NOT_RECORDED}the run ended with an error before it had a record"
        return f"{NOT_RECORDED}the run has no record: it goes on, or whatever followed it was interrupted"

    def older(self, *keys: str, why: str) -> str:
        """`missing`, of a value that versions before this one did not write at all."""
        *above, last = keys
        if self.record and last not in reading.mapping(self.record, *above):
            return f"{NOT_RECORDED}the version that made this record did not write {'.'.join(keys)}"
        return self.missing(why)

    @property
    def no_log(self) -> str:
        return f"{NOT_RECORDED}only the job's log has it, and there is no job.log beside the record"


def _of_failed(job: Mapping[str, Any]) -> dict[str, Any]:
    attempts = reading.mappings(job, "attempts")
    ranks = reading.mappings(counting_attempt(attempts), "ranks")
    return {
        "arguments": reading.mapping(job, "arguments"),
        "versions": reading.mapping(ranks[0], "versions") if ranks else {},
        "transport": {
            "worldSize": reading.at(job, "world_size"),
            "ranks": [{**rank, "node": rank.get("node_id"), "host": rank.get("hostname")} for rank in ranks],
        },
        "throughput": {
            "tokensPerSecond": reading.at(job, "tokens_per_second"),
            "tokensPerStep": reading.at(job, "tokens_per_step"),
            "stepSeconds": reading.at(job, "step_seconds"),
            "splitSeconds": reading.at(job, "split_seconds"),
            "mfu": reading.at(job, "mfu"),
        },
        "memory": {"peakBytesByRank": reading.mapping(job, "peak_memory_bytes")},
        "evaluation": {
            "lossBefore": reading.at(job, "eval", "before", "loss"),
            "lossAfter": reading.at(job, "eval", "after", "loss"),
        },
        "losses": reading.at(job, "losses"),
        "checkpoint": reading.at(job, "checkpoint", "path"),
        "data": reading.at(job, "data"),
        "model": reading.at(job, "model"),
        "attempts": [
            {"attempt": one.get("attempt"), "resumedFromStep": one.get("resumed_from_step"), "ranks": one.get("ranks")}
            for one in attempts
        ],
        "timings": reading.mapping(job, "timings"),
    }
