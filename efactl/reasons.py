"""Why an `up` failed, told by what it left in runs/: a measurement, the job, or the comparison that was judged."""

import contextlib
import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from efactl.exit_codes import ExitCode
from report.reading import mapping
from workload.run_folder import regular

_BY_VERDICT = {"refuted": ExitCode.REFUTED, "unproven": ExitCode.UNPROVEN}
_PREFLIGHTS, _COMPARISONS = "ray-train-bandwidth-*/record.json", "compare-*/comparison.json"


def of_job(run: Mapping[str, Any]) -> ExitCode | None:
    """By `efactl outputs`' run, which has come to its gate; None where that passed it."""
    if not run:
        return None
    return _BY_VERDICT.get(run["verdict"], ExitCode.QUALITY if run["qualityPassed"] is False else None)


def of_measurements(runs: Path, began: datetime.datetime) -> ExitCode | None:
    """By the newest preflight and comparison that were judged, or interrupted, since then."""
    for pattern, code_of in ((_PREFLIGHTS, _preflight), (_COMPARISONS, _comparison)):
        for record in _newest_first(runs, pattern):
            if (code := code_of(record, began)) is not None:
                return code
    return None


def of_comparison(comparison: Mapping[str, Any]) -> ExitCode:
    """By the outputs of one whose gate has failed it: its report may be on another machine."""
    status = str(mapping(comparison, "result").get("status"))
    return _BY_VERDICT.get(status, ExitCode.SLOW if status == "complete" else ExitCode.FAILED)


def _preflight(record: Mapping[str, Any], began: datetime.datetime) -> ExitCode | None:
    verdict = mapping(record, "verdict")
    if not _since(verdict.get("judgedAt"), began):
        return None
    # Wrong sums are no matter of speed.
    wrong = any(int(row["wrong"]) for row in record["rows"])
    failed = ExitCode.FAILED if wrong else ExitCode.SLOW
    return _BY_VERDICT.get(verdict["value"], None if record["quality"]["passed"] else failed)


def _comparison(report: Mapping[str, Any], began: datetime.datetime) -> ExitCode | None:
    if report.get("status") == "interrupted" and _since(report.get("updatedAt"), began):
        return ExitCode.INTERRUPTED
    judgement = mapping(report, "judgement")
    if not _since(judgement.get("judgedAt"), began) or not judgement["reasons"]:
        return None
    return of_comparison({"result": report})


def _since(moment: str | None, began: datetime.datetime) -> bool:
    return bool(moment) and datetime.datetime.fromisoformat(str(moment)) >= began


def _newest_first(runs: Path, pattern: str) -> Iterator[Mapping[str, Any]]:
    for path in sorted(runs.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True):
        # One that an interruption cut, or that somebody else has left there, tells nothing.
        with contextlib.suppress(OSError, ValueError):
            record = json.loads(regular(path).read_text(encoding="utf-8"))
            if isinstance(record, dict):
                yield record
