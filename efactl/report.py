"""`efactl report`: a run, or two beside each other, as one page for any browser; without a stack, Ray or Pulumi."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from efactl.exit_codes import ExitCode
from efactl.run_sources import check_stack, sources
from report.page import page
from report.run import Run
from report.run_files import Places, RunFiles, load
from workload.errors import BadInputError, ReportedError

STANDARD_OUTPUT = "-"


def report(
    asked: str,
    other: str | None,
    *,
    out: str | None,
    as_json: bool,
    stack: str | None = None,
    places: Sequence[str] | None = None,
) -> ExitCode:
    """Writes the page to `out`, else beside the first run's record, or here for one in S3. Raises ReportedError where
    it cannot be written.

    `stack` is the one that the first run is of: its state says how it was brought up. Runs are looked for in `places`,
    else where efactl.run_sources says.
    """
    if out == STANDARD_OUTPUT and as_json:
        raise BadInputError("-o - and --json both ask for standard output: leave one out")
    if stack is not None:
        check_stack(stack)
    files, runs = _loaded([one for one in (asked, other) if one is not None], places, stack)
    if stack is not None:
        runs[0] = dataclasses.replace(runs[0], bring_up=_brought_up(stack, runs[0]))
    html = page(*runs)
    if out == STANDARD_OUTPUT:
        # Whatever encoding a terminal or a pipe has.
        sys.stdout.write(html.encode("ascii", "xmlcharrefreplace").decode())
        return ExitCode.OK
    path = Path(out or _place_of_page(files, runs))
    try:
        path.write_text(html, encoding="utf-8")
    except OSError as error:
        raise ReportedError(
            f"the page {path} cannot be written: {error.strerror or error}; -o names another"
        ) from error
    if as_json:
        print(json.dumps({"report": str(path), "runs": [_told(run) for run in runs]}))
    else:
        print(f"report: {path}")
    return ExitCode.OK


def _loaded(asked: Sequence[str], given: Sequence[str] | None, stack: str | None) -> tuple[list[RunFiles], list[Run]]:
    with sources(given, stack) as known:
        places = Places(known.places, may_be_absent=not known.given)
        try:
            files = [places.find(one) for one in asked]
        finally:
            for line in (*known.unread, *places.unread):
                print(f"not read: {line}", file=sys.stderr)
        return files, [load(one) for one in files]


def _brought_up(name: str, run: Run) -> list[dict[str, object]]:
    """The page itself needs no Pulumi; this does."""
    from efactl.bring_up_times import steps_of
    from efactl.stack import Stack

    of = run.record.get("stack")
    if of not in (None, name):
        raise BadInputError(f"run {run.id} is of stack {of}, not {name}")
    return steps_of(Stack(name).resources())


def _place_of_page(files: Sequence[RunFiles], runs: Sequence[Run]) -> Path:
    beside = files[0].beside
    parts = ["report", *([] if beside else [files[0].folder.name])]
    parts += [f"with-{files[1].folder.name}"] if len(runs) > 1 else []
    return Path(beside) / f"{'-'.join(parts)}.html"


def _told(run: Run) -> dict[str, object]:
    verdict = run.record.get("verdict")
    return {"submissionId": run.id, "verdict": verdict.get("value") if isinstance(verdict, dict) else None}
