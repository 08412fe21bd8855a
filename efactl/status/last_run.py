"""PURE: what became of the run that a stack holds: its verdict, its quality, its main figures."""

from collections.abc import Mapping
from typing import Any

from workload.recorded_run import RecordedRun, number, text, texts


def last_run_part(job: Mapping[str, Any], told: Mapping[str, Any], record: RecordedRun | None) -> dict[str, Any] | None:
    """None where the stack holds no run.

    `job` has the outputs of the stack's job, `told` the stack output `run`; `record` None is not on this machine.
    """
    identifier = text(job.get("submission_id"))
    if identifier is None:
        return None
    own = told if told.get("submissionId") == identifier else {}
    here = record is not None and not record.problem
    return {
        "submissionId": identifier,
        "status": job.get("status"),
        "endedAt": record.ended.isoformat(timespec="seconds") if record and record.ended else None,
        "expect": record.expect if record else text(job.get("expect")),
        "verdict": record.verdict if record and here else text(own.get("verdict")),
        "verdictReasons": record.reasons if record and here else texts(own.get("verdictReasons")),
        "qualityPassed": record.quality if record else None,
        "tokensPerSecond": number(job.get("tokens_per_second")),
        "evalLossBefore": number(job.get("eval_loss_before")),
        "evalLossAfter": number(job.get("eval_loss_after")),
        "record": text(job.get("record")),
        "note": record.problem or None if record else "its record is not on this machine",
    }
