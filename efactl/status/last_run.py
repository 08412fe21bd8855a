"""PURE: what became of the run that a stack holds: its verdict, its quality, its main figures."""

from collections.abc import Mapping
from typing import Any

from workload.recorded_run import RecordedRun, number, text, texts

_BY_STATE = "judged by the state"


def last_run_part(
    job: Mapping[str, Any], judged: Mapping[str, Any], record: RecordedRun | None
) -> dict[str, Any] | None:
    """None where the stack holds no run.

    `job` has the outputs of the stack's job; `record` None is not on this machine. Without one to go by it is as
    `judged`: what the gate says of the state (`efactl.gate`).
    """
    identifier = text(job.get("submission_id"))
    if identifier is None:
        return None
    here = record if record and not record.problem else None
    return {
        "submissionId": identifier,
        "status": job.get("status"),
        "endedAt": record.ended.isoformat(timespec="seconds") if record and record.ended else None,
        "expect": here.expect if here else text(judged.get("expect")) or text(job.get("expect")),
        "verdict": here.verdict if here else text(judged.get("verdict")),
        "verdictReasons": here.reasons if here else texts(judged.get("verdictReasons")),
        "qualityPassed": here.quality if here else judged.get("qualityPassed"),
        "tokensPerSecond": number(job.get("tokens_per_second")),
        "evalLossBefore": number(job.get("eval_loss_before")),
        "evalLossAfter": number(job.get("eval_loss_after")),
        "record": text(job.get("record")),
        "note": None if here else f"{record.problem if record else 'its record is not on this machine'}: {_BY_STATE}",
    }
