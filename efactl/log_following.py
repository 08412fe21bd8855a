"""Following a running job's log to the job's end, over connections that break; the job is never touched."""

import os
import sys
import time
from pathlib import Path

import requests

from efactl.log_output import LogOutput
from workload.errors import ReportedError
from workload.head import Head, reach
from workload.job_following import POLL_S, UNREACHABLE_S, persisting
from workload.jobs_api import JobsApi, JobState, JobUnknownError
from workload.log_stream import LogStream


def follow(head: Head, identifier: str, output: LogOutput, *, stack: str) -> None:
    """Ends with the job, or where nobody reads any more. Raises ReportedError where the job is lost from sight."""
    with reach(head) as endpoint:
        api = persisting(lambda: JobsApi(endpoint), say=note)
        stream = LogStream(api.client, identifier, Path(os.devnull), on_line=output.line)
        try:
            state = _ended(api, identifier, output)
        except BaseException as error:
            stream.abandon()
            if isinstance(error, KeyboardInterrupt):
                note(f"job {identifier} goes on; `efactl stop -s {stack}` stops it")
            raise
        if state is None:
            stream.abandon()
            return
        stream.finish(wait_s=10)
        if stream.failure:
            note(f"the log is incomplete: {stream.failure}")
        note(f"job {identifier} ended as {state.status}")


def _ended(api: JobsApi, identifier: str, output: LogOutput) -> JobState | None:
    """The job once it has ended; None where the reader is gone before."""
    reached = time.monotonic()
    while not output.closed.wait(POLL_S):
        try:
            state = api.job(identifier)
        except JobUnknownError:
            raise ReportedError(f"the head no longer knows job {identifier}: it was deleted or replaced") from None
        except requests.RequestException as error:
            if time.monotonic() - reached > UNREACHABLE_S:
                raise ReportedError(f"job {identifier} goes on unseen, or is lost with its head: {error}") from None
            continue
        reached = time.monotonic()
        if state.ended:
            return state
    return None


def note(line: str) -> None:
    print(f"efactl logs: {line}", file=sys.stderr)
