"""PURE: the verdict on NCCL's own lines: proven, refuted or unproven, each reason with its rule, rank, host and place.

What one grep for the provider's line cannot see is joined here: who is in a communicator, what network each of them
chose, what libfabric runs on below it, and over what each channel between hosts goes, for the attempt that counts.
"""

from workload.nccl.attempt_rule import AttemptRule, Judged
from workload.nccl.report import Lost, TransportReport
from workload.verdict import EXPECTATIONS, Value, Verdict, Wanted


def judge_report(report: TransportReport, wanted: Wanted) -> Verdict:
    """Judges the attempt that counts: the last, or all that ran at the same time or whose order cannot be told."""
    if wanted.expect not in EXPECTATIONS:
        raise ValueError(f"expect: '{wanted.expect}' is none of {', '.join(EXPECTATIONS)}")
    lost = _lost(report.lost)
    if not report.attempts:
        nothing = (
            f"input: {report.lines} lines of {', '.join(report.files) or 'nothing'} and none of NCCL's among them: "
            "NCCL_DEBUG=INFO may not be set, or NCCL_DEBUG_FILE leads elsewhere"
        )
        return Verdict(expect=wanted.expect, value="unproven", reasons=(nothing, *lost))
    judged = [AttemptRule(report.attempts[index], wanted).judged(lost) for index in report.counting]
    if report.side_by_side:
        # What ran beside a run over hosts and stayed on its own (an evaluation, one host's group) says nothing of it.
        judged = [one for one in judged if not one.one_host] or judged
    return _together(judged, wanted.expect, side_by_side=report.side_by_side)


def _together(judged: list[Judged], expect: str, *, side_by_side: bool) -> Verdict:
    values = {one.value for one in judged}
    if len(values) == 1:
        reasons = dict.fromkeys(reason for one in judged for reason in one.reasons)
        return Verdict(expect=expect, value=judged[0].value, reasons=tuple(reasons))
    value: Value = "refuted" if side_by_side and "refuted" in values else "unproven"
    how = "ran at the same time" if side_by_side else "cannot be put in order, as they share no file"
    reasons = dict.fromkeys(reason for one in judged if one.value != "proven" for reason in one.reasons)
    said = f"attempts: {len(judged)} {how}, so that all of them count, and they differ"
    return Verdict(expect=expect, value=value, reasons=(said, *reasons))


def _lost(lost: Lost) -> list[str]:
    at = dict(lost.at)
    words = {
        "deduplicated": "lines hidden by Ray's deduplication, which hides other transports too; set RAY_DEDUP_LOGS=0",
        "fragments": "pieces of NCCL's lines whose rest was not found",
        "truncated": "inputs that end within one of NCCL's lines",
        "too_long": "lines too long to be read",
        "unknown": "lines about transport in words that are not known",
        "beyond": "facts more than are held",
    }
    counts = ((what, getattr(lost, what)) for what in words)
    return [
        f"input: {count} {words[what]}" + (f" (first at {at[what]})" if what in at else "")
        for what, count in counts
        if count
    ]
