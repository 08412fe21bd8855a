"""The life of one training job: submit it or find it running, follow it to its end, stop it when its time is up."""

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import requests

from workload.errors import ReportedError, RunInterruptedError
from workload.head import Head, reach
from workload.job_record import RecordCollector
from workload.job_spec import JobSpec, attempt_of, command_line, submission_id, submission_stem
from workload.jobs_api import JobsApi, JobState, JobUnknownError, running
from workload.log_stream import LogStream
from workload.progress import Progress
from workload.redaction import Redactor

POLL_S = 1.0
# The driver ends itself at the deadline and says why; the follower steps in only when it did not.
DEADLINE_GRACE_S = 20.0
STOP_WAIT_S = 45.0
UNREACHABLE_S = 60.0

# Without the first, Ray folds a line of one rank into another's whenever they differ only in words with digits.
FIXED_ENV = {
    "RAY_DEDUP_LOGS": "0",
    "RAY_COLOR_PREFIX": "0",
    "PYTHONUNBUFFERED": "1",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "300",
}


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """What to run and where its traces go. `storage` is the place of checkpoints as the ranks see it."""

    spec: JobSpec
    head: Head
    training: Path
    runs: Path
    storage: str
    deadline_s: float


@dataclass(frozen=True, kw_only=True)
class JobOutcome:
    """A job that SUCCEEDED and reported."""

    submission_id: str
    attempt: int
    session_name: str
    ray_version: str
    started_at: float
    ended_at: float
    log: Path
    log_connections: int
    record: Mapping[str, Any] = field(repr=False)


def run(request: JobRequest, *, say: Callable[[str], None], interrupt: Event) -> JobOutcome:
    """Brings the job to its end and returns what it reported.

    Raises RunInterruptedError, with the job left running, when `interrupt` is set; ReportedError for any other failure.
    """
    with reach(request.head) as endpoint:
        api = _connect(endpoint)
        ray_version, session = api.version()
        if ray_version != request.head.ray_version:
            raise ReportedError(
                f"the Ray head runs Ray {ray_version}, the RayCluster was declared with {request.head.ray_version}: "
                "use the image that was declared, or declare the version of the image"
            )
        stem = submission_stem(request.spec.digest(), session)
        state, attempt = _submit_or_find(api, request, stem, say)
        return _Following(api, request, state, attempt, session, ray_version, say).to_the_end(interrupt)


def stop(head: Head, *, say: Callable[[str], None], only: str | None = None) -> list[str]:
    """Stops the head's unfinished jobs (or the one named) and waits until they have ended; returns their ids."""
    with reach(head) as endpoint:
        api = _connect(endpoint)
        targets = [job.submission_id for job in running(api.jobs()) if only in (None, job.submission_id)]
        for target in targets:
            say(f"stopping job {target}")
            _stop_and_wait(api, target)
    return targets


def _connect(endpoint: Any) -> JobsApi:
    deadline = time.monotonic() + UNREACHABLE_S / 2
    while True:
        try:
            return JobsApi(endpoint)
        except (ConnectionError, requests.RequestException) as error:
            if time.monotonic() > deadline:
                raise ReportedError(
                    f"no Ray head answers at {endpoint.url}: {str(error)[:200]}; `pulumi up` brings it back up"
                ) from error
            time.sleep(POLL_S)


def _submit_or_find(api: JobsApi, request: JobRequest, stem: str, say: Callable[[str], None]) -> tuple[JobState, int]:
    """An unfinished job of the same spec is followed; one that succeeded and was never collected is collected."""
    attempts = {attempt: job for job in api.jobs() if (attempt := attempt_of(stem, job.submission_id)) is not None}
    for attempt, job in sorted(attempts.items(), reverse=True):
        if not job.ended:
            say(f"job {job.submission_id} is already running: following it")
            return job, attempt
        if job.status == "SUCCEEDED" and not (request.runs / job.submission_id / "record.json").exists():
            say(f"job {job.submission_id} finished while nobody followed it: collecting its result")
            return job, attempt
        say(f"job {job.submission_id} ended as {job.status}: this is attempt {attempt + 1}")
        break
    attempt = max(attempts, default=0) + 1
    identifier = submission_id(stem, attempt)
    if not api.submit(
        identifier,
        entrypoint=shlex.join(_entrypoint(request, identifier)),
        training=request.training,
        env={**request.spec.env, **FIXED_ENV},
        secret_env=request.spec.secret_env,
        metadata={"spec": request.spec.digest(), "attempt": str(attempt)},
    ):
        say(f"job {identifier} was submitted by someone else a moment ago: following it")
    else:
        say(f"job {identifier} submitted")
    return api.job(identifier), attempt


def _entrypoint(request: JobRequest, identifier: str) -> list[str]:
    arguments = {
        **request.spec.arguments,
        "pip": list(request.spec.pip),
        "worker_resource": request.head.worker_resource,
        "num_workers": request.spec.arguments.get("num_workers") or request.head.accelerators,
        "storage_path": request.storage,
        "run_id": identifier,
        "deadline_s": request.deadline_s,
    }
    return ["python", "-m", "training.train", *command_line(arguments)]


class _Following:
    """One job being followed: its log in a thread, its status polled; the status decides, the log informs."""

    def __init__(
        self,
        api: JobsApi,
        request: JobRequest,
        state: JobState,
        attempt: int,
        session: str,
        ray_version: str,
        say: Callable[[str], None],
    ) -> None:
        self._api, self._request, self._attempt, self._say = api, request, attempt, say
        self._session, self._ray_version = session, ray_version
        self._id = state.submission_id
        folder = request.runs / self._id
        folder.mkdir(parents=True, exist_ok=True)
        self._log_path = folder / "job.log"
        self._progress = Progress(say)
        self._records = RecordCollector()
        redactor = Redactor(request.spec.secret_env.values())
        self._log = LogStream(api.client, self._id, self._log_path, on_line=self._line, redact=redactor)
        self._elapsed_before = max(0.0, time.time() - state.started_at) if state.started_at else 0.0
        self._since = time.monotonic()
        self._reached_at = self._since

    def to_the_end(self, interrupt: Event) -> JobOutcome:
        try:
            state = self._wait(interrupt)
        except BaseException:
            self._log.abandon()
            raise
        self._log.finish(wait_s=10)
        self._progress.finish()
        if self._log.unwritten:
            self._say(f"warning: {self._log_path} is incomplete: {self._log.unwritten}")
        if state.status != "SUCCEEDED":
            raise ReportedError(self._failure(f"job {self._id} ended as {state.status}", state.message))
        record = self._records.record
        if record is None:
            raise ReportedError(self._failure(f"job {self._id} SUCCEEDED but {self._records.problem}"))
        return JobOutcome(
            submission_id=self._id,
            attempt=self._attempt,
            session_name=self._session,
            ray_version=self._ray_version,
            started_at=state.started_at,
            ended_at=state.ended_at,
            log=self._log_path,
            log_connections=self._log.connections,
            record=record,
        )

    def _line(self, line: str) -> None:
        self._records.line(line)
        self._progress.line(line)

    def _wait(self, interrupt: Event) -> JobState:
        while True:
            state = self._poll()
            if state is not None and state.ended:
                return state
            elapsed = self._elapsed_before + time.monotonic() - self._since
            if elapsed > self._request.deadline_s + DEADLINE_GRACE_S:
                self._stop_at_deadline(elapsed)
            if interrupt.wait(POLL_S):
                raise RunInterruptedError(
                    f"interrupted: job {self._id} goes on. The next `pulumi up` follows it; `efactl stop` stops it. "
                    f"Log so far: {self._log_path}"
                )

    def _poll(self) -> JobState | None:
        """The job's state; None while the head does not answer, for at most UNREACHABLE_S."""
        try:
            state = self._api.job(self._id)
            self._reached_at = time.monotonic()
        except JobUnknownError:
            raise ReportedError(self._lost()) from None
        except requests.RequestException as error:
            silent = time.monotonic() - self._reached_at
            if silent > UNREACHABLE_S:
                raise ReportedError(
                    self._failure(
                        f"the Ray head has not answered for {silent:.0f} s ({type(error).__name__}); job {self._id} may "
                        "be lost with it. The next `pulumi up` repairs the cluster and follows or repeats the job"
                    )
                ) from None
            return None
        else:
            return state

    def _lost(self) -> str:
        _, session = self._api.version()
        if session != self._session:
            what = f"the Ray head was replaced while job {self._id} ran, and its job table is gone"
        else:
            what = f"job {self._id} was deleted from the Ray head"
        return self._failure(f"{what}: the next `pulumi up` runs it again")

    def _stop_at_deadline(self, elapsed: float) -> None:
        ended = _stop_and_wait(self._api, self._id)
        self._log.finish(wait_s=5)
        raise ReportedError(
            self._failure(
                f"job {self._id} was past its deadline (jobDeadlineSeconds: {self._request.deadline_s:.0f}) "
                f"after {elapsed:.0f} s "
                + ("and was stopped" if ended else f"and did not stop within {STOP_WAIT_S:.0f} s: try `efactl stop`")
            )
        )

    def _failure(self, headline: str, message: str = "") -> str:
        return failure_text(headline, self._progress.last_useful_lines(), self._log_path, message)


def failure_text(headline: str, lines: Sequence[str], log: Path, message: str = "") -> str:
    """Headline, the job's own last words, and where the full log is."""
    parts = [headline]
    if lines:
        parts += [f"  {line[:500]}" for line in lines]
    elif message:
        parts += [f"  {line[:500]}" for line in message.splitlines()[-8:]]
    return "\n".join([*parts, f"full log: {log}"])


def _stop_and_wait(api: JobsApi, identifier: str) -> bool:
    """Asks a job to stop; True once it has ended."""
    try:
        api.stop(identifier)
        until = time.monotonic() + STOP_WAIT_S
        while time.monotonic() < until:
            if api.job(identifier).ended:
                return True
            time.sleep(POLL_S / 2)
    except JobUnknownError:
        return True
    return False
