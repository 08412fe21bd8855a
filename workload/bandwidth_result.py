"""PURE: what a bandwidth job measured: whether its log and its record agree, and whether it is good enough."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from workload.nccl_tests import Figures, Row, Table
from workload.quality import SHOWN
from workload.verdict import Verdict

NO_SIZE = "is not a size in bytes such as 64M or 1G, a multiple of 4"
# The table shows two decimals.
_ROUNDED = 0.0051


def disagreements(rows: Sequence[Mapping[str, Any]], table: Table) -> list[str]:
    """Where the rows of a record and those read by position from the log differ; empty where they agree."""
    problems = [f"a row of the log is cut: {text[:120]}" for text in table.unread]
    if not rows:
        problems.append("the record holds no row")
    if len(rows) != len(table.rows):
        problems.append(f"the record holds {len(rows)} rows, the log {len(table.rows)}")
        return problems
    problems += [
        f"{mebibytes(row)}: the record says {_told(row)}, the log {_shown(shown)}"
        for row, shown in zip(rows, table.rows, strict=True)
        if not _agree(row, shown)
    ]
    wrong = sum(int(row["wrong"]) for row in rows)
    if table.out_of_bounds != wrong or table.passed != (wrong == 0):
        problems.append(f"the record counts {wrong} wrong elements, the end of the log's table {table.out_of_bounds}")
    return problems


def failures(rows: Sequence[Mapping[str, Any]], min_busbw_gbs: float | None) -> list[str]:
    """Why what was measured is not good enough, each with what to do; empty where it is."""
    reasons = [
        f"{int(row['wrong'])} elements of the sums of {mebibytes(row)} are wrong (#wrong must be 0): a GPU, its memory "
        "or the network corrupts data; find the node and replace it"
        for row in rows
        if int(row["wrong"])
    ]
    best = largest(rows)
    if best is None:
        return ["no size was measured"]
    reached = float(best["busbw_gbs"])
    if min_busbw_gbs is not None and not reached >= min_busbw_gbs:
        reasons.append(
            f"bus bandwidth {reached:.3g} GB/s at {mebibytes(best)} is below preflightMinBusBandwidth "
            f"{min_busbw_gbs:g}: see that the nodes are in one zone and placement group and that every network "
            "interface is used, or set what these nodes can reach"
        )
    return reasons


def largest(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The row of the largest size; where that was measured again, the slowest. Never a mean: small sizes are slow."""
    return min(rows, key=lambda row: (-row["bytes"], row["busbw_gbs"]), default=None)


def mebibytes(row: Mapping[str, Any]) -> str:
    return f"{row['bytes'] / 2**20:g} MiB"


def preflight_message(
    verdict: Verdict, reasons: Sequence[str], submission_id: str, log: str, *, measured_now: bool
) -> str | None:
    """The error that keeps the job from starting, or None where everything is as wanted."""
    if verdict.passes and not reasons:
        return None
    lines = [f"bandwidth preflight failed, so the job is not started: run {submission_id}"]
    if not verdict.passes:
        lines.append(f"transport {verdict.value}: expected {verdict.expect}")
        lines += [f"  {reason}" for reason in verdict.reasons[:SHOWN]]
        if len(verdict.reasons) > SHOWN:
            lines.append(f"  ... and {len(verdict.reasons) - SHOWN} more in its record")
    if reasons:
        lines.append("measurement refused:")
        lines += [f"  {reason}" for reason in reasons]
    again = "The next `pulumi up`" if measured_now else "This was measured before; a new `jobRunId`"
    lines.append(f"{again} measures anew; `preflightBandwidth: false` leaves the preflight out.")
    return "\n".join([*lines, f"full log: {log}"])


def _agree(row: Mapping[str, Any], shown: Row) -> bool:
    figures = shown.in_place
    if figures is None or shown.out_of_place is not None:
        return False
    same = (int(row["bytes"]), int(row["count"]), row["type"], row["op"], int(row["wrong"])) == (
        shown.size,
        shown.count,
        shown.type,
        shown.op,
        figures.wrong,
    )
    pairs = (
        (row["time_us"], figures.time_us),
        (row["algbw_gbs"], figures.algbw_gbs),
        (row["busbw_gbs"], figures.busbw_gbs),
    )
    return same and all(math.isclose(exact, rounded, rel_tol=0, abs_tol=_ROUNDED) for exact, rounded in pairs)


def _told(row: Mapping[str, Any]) -> str:
    return (
        f"{row['count']} {row['type']} {row['op']}, {row['time_us']:.2f} us, {row['algbw_gbs']:.2f} and "
        f"{row['busbw_gbs']:.2f} GB/s, {row['wrong']} wrong"
    )


def _shown(row: Row) -> str:
    figures: Figures | None = row.in_place
    start = f"{row.size} bytes, {row.count} {row.type} {row.op}"
    if figures is None:
        return f"{start} without in-place figures"
    return (
        f"{start}, {figures.time_us:.2f} us, {figures.algbw_gbs:.2f} and {figures.busbw_gbs:.2f} GB/s, "
        f"{figures.wrong} wrong"
    )
