"""`efactl logs`: the log of the running job from its head, else that of the last run."""

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from efactl.exit_codes import ExitCode
from efactl.log_output import LogOutput
from efactl.region_stacks import hint
from efactl.stack import FOLDER, JOB_TYPE, Stack
from efactl.stack_secrets import configured_secrets
from efactl.status.head_calls import HeadCalls
from efactl.status.job_part import newest_job, running_job
from efactl.status.state import ReadStack, secrets_in
from workload.errors import ReportedError
from workload.log_selection import OfRank, Select
from workload.recorded_run import mappings
from workload.redaction import Redactor
from workload.run_folder import LOG, is_followed
from workload.run_records import find

ANSWER_S = 30.0


def logs(stack: Stack, select: Select, *, follow: bool, runs: Path = FOLDER / "runs") -> ExitCode:
    """OK at the log's end, whatever became of the job; KeyboardInterrupt ends the following alone."""
    read = ReadStack(stack, stack.resources())
    # A head's log is as the job printed it.
    redact = Redactor([*secrets_in(read.resources()), *configured_secrets(stack)])
    output = LogOutput(select, redact, at_once=follow)
    head = read.head()
    with contextlib.ExitStack() as tunnel:
        calls = tunnel.enter_context(contextlib.closing(HeadCalls(head, limit_s=ANSWER_S))) if head else None
        job = _newest(calls) if calls else None
        runs_now = job is not None and running_job([job]) is not None
        if follow and runs_now and head and job:
            # Ray's client, as whoever runs the job uses it: its import takes a second.
            from efactl.log_following import follow as follow_to_the_end

            follow_to_the_end(head, _id(job), output, stack=read.name)
        else:
            for line in _lines(read, calls, job, runs, runs_now=runs_now):
                output.line(line)
                if output.closed.is_set():
                    break
    output.finish()
    if isinstance(select, OfRank) and not output.count and not output.closed.is_set():
        raise ReportedError(f"the log has no line of that rank; it names {_ranks(select.known)}")
    return ExitCode.OK


def _ranks(known: Iterable[int]) -> str:
    return f"ranks {', '.join(map(str, sorted(known)))}" if known else "no rank"


def _id(job: Mapping[str, Any] | None) -> str:
    return str(job["submission_id"]) if job else ""


def _newest(calls: HeadCalls) -> Mapping[str, Any] | None:
    try:
        return newest_job(mappings(calls.get("/api/jobs/")))
    except ReportedError as error:
        _note(f"whether a job runs is not known: {error}")
        return None


def _lines(
    read: ReadStack, calls: HeadCalls | None, job: Mapping[str, Any] | None, runs: Path, *, runs_now: bool
) -> Iterable[str]:
    """The file on this machine where it is whole, else the head's, else as much as the file has."""
    here = _here(read, _id(job), runs)
    if here and not runs_now and is_followed(here.parent):
        return _of_file(here, "no job is known to run: the log")
    why = "no head names its job"
    if here is None or job is not None:
        try:
            if (lines := _from_head(read, calls, _id(job))) or here is None:
                return lines
            why = "the head has no line of it"
        except ReportedError as error:
            if here is None:
                raise
            why = str(error)
    return _of_file(here, f"{why}: the log, as far as it was followed here,")


def _here(read: ReadStack, identifier: str, runs: Path) -> Path | None:
    """The log on this machine: of the job that the head names, else of the run in state, else of the stack's newest."""
    known = identifier or str(read.outputs_of(JOB_TYPE).get("submission_id") or "")
    path = runs / known / LOG
    if known and path.is_file():
        return path
    return None if identifier else _newest_here(read.name, runs)


def _newest_here(stack: str, runs: Path) -> Path | None:
    """Of a run that says it is this stack's: another stack's log would be taken for this one's."""
    own = (run for run in find([str(runs)], may_be_absent=True).runs if run.stack == stack)
    path = next((path for run in own if (path := Path(run.place) / LOG).is_file()), None)
    if path is not None:
        _note(f"neither the head nor the state names a run with a log here: the newest log of stack {stack} in runs/")
    return path


def _of_file(path: Path, why: str) -> Iterator[str]:
    _note(f"{why} of {path.parent.name}")
    with path.open(encoding="utf-8", errors="replace") as lines:
        yield from lines


def _from_head(read: ReadStack, calls: HeadCalls | None, identifier: str) -> list[str]:
    if calls is None or not identifier:
        advice = hint(read.name)
        raise ReportedError(f"stack {read.name} has no run whose log could be shown{f'; {advice}' if advice else ''}")
    return str(calls.get(f"/api/jobs/{identifier}/logs").get("logs") or "").splitlines()


def _note(line: str) -> None:
    print(f"efactl logs: {line}", file=sys.stderr)
