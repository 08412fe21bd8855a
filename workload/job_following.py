"""Following one job to its end: its log in a thread, its status polled; the status decides, the log informs."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import requests

from workload.errors import ReportedError, RunInterruptedError
from workload.head import Head
from workload.job_failure import failure_text
from workload.job_kind import TRAINING, JobKind
from workload.job_record import RecordCollector
from workload.job_spec import JobSpec
from workload.jobs_api import JobsApi, JobState, JobUnknownError
from workload.log_stream import LogStream
from workload.progress import Progress
from workload.redaction import Redactor
from workload.run_folder import LOG, begin, end_log, settle

T = TypeVar("T")

POLL_S = 1.0
# The driver ends itself at the deadline and says why; the follower steps in only when it did not.
DEADLINE_GRACE_S = 30.0
STOP_WAIT_S = 45.0
UNREACHABLE_S = 60.0
PENDING_S = 45.0
SILENT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """What to run and where its traces go. `storage` is the place of checkpoints as the ranks see it.

    `placement`: for each pod its name, node, zone, instance_type, image, image_id and role; empty on one machine.
    `hourly_usd`: what the stack costs an hour by the estimate, None where that is not known.
    `on_settled` is given the folder of a run that ended with an error, which is in it.
    """

    spec: JobSpec
    head: Head
    training: Path
    runs: Path
    storage: str
    deadline_s: float
    placement: Sequence[Mapping[str, Any]] = ()
    stack: str = ""
    hourly_usd: float | None = None
    kind: JobKind = TRAINING
    on_settled: Callable[[Path], None] | None = field(default=None, repr=False, compare=False)

    def settle(self, folder: Path, message: str) -> ReportedError:
        """The error of a run that can never be used, kept in its folder."""
        settle(folder, message)
        if self.on_settled is not None:
            self.on_settled(folder)
        return ReportedError(message)

    @property
    def stop_command(self) -> str:
        """For whoever is told of the job; efactl's own default is another stack."""
        return f"efactl stop -s {self.stack}" if self.stack else "efactl stop"

    @property
    def goes_on(self) -> bool:
        """Whether another run of the spec goes on where this one ends early, as the driver decides it."""
        arguments = self.spec.arguments
        begins_anew = arguments.get("checkpoint_every") == 0 or bool(arguments.get("resume_from"))
        return self.kind.goes_on and bool(self.head.stack_mark) and not begins_anew

    @property
    def next_up(self) -> str:
        """What becomes of a run that has ended early."""
        again = "the next `pulumi up` runs it again"
        return f"{again}, from its newest checkpoint before the last step where there is one" if self.goes_on else again

    @property
    def ranks(self) -> int:
        """As many as were asked for, or one for each accelerator of the cluster."""
        return int(self.spec.arguments.get("num_workers") or self.head.accelerators)


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


class Following:
    """One job being followed; `to_the_end` is called once."""

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
        begin(folder, stack=request.stack, started_at=state.started_at or time.time())
        self._log_path = folder / LOG
        pods = {str(pod["pod_ip"]): str(pod["name"]) for pod in request.placement if pod.get("pod_ip")}
        self._progress = Progress(say, pods=pods)
        self._records = RecordCollector(self._id, schema=request.kind.schema, required=request.kind.required)
        self._redact = redactor = Redactor(request.spec.secret_env.values())
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
        elif not self._log.failure:
            end_log(self._log_path.parent)
        if state.status != "SUCCEEDED":
            began = state.status == "STOPPED" or self._progress.last_step()
            after = self._request.next_up if began and self._request.goes_on else ""
            raise self._settled(self._failure(f"job {self._id} ended as {state.status}", state.message, after))
        record = self._records.record
        if record is None and self._log.failure:
            # Not settled: the job is whole, only its log could not be read.
            raise ReportedError(
                self._failure(
                    f"job {self._id} SUCCEEDED, but its log cannot be read to the end ({self._log.failure}): "
                    "the next `pulumi up` collects it"
                )
            )
        if record is None:
            raise self._settled(self._failure(f"job {self._id} SUCCEEDED but {self._records.problem}"))
        if (ranks := record["world_size"]) != self._request.ranks:
            problem = f"job {self._id} reports {ranks} ranks, {self._request.ranks} were asked for"
            raise self._settled(self._failure(problem))
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
        told = False
        while True:
            state = self._poll()
            if state is not None and state.ended:
                return state
            elapsed = self._elapsed_before + time.monotonic() - self._since
            if state is not None and state.status == "PENDING" and elapsed > PENDING_S and not told:
                told = True
                self._say(
                    f"job {self._id} is still PENDING after {elapsed:.0f} s: {state.message or 'no reason given'}"
                )
            if silence := self._progress.silent_for(SILENT_S):
                self._say(f"job {self._id}: nothing new from training; {silence}")
            if elapsed > self._request.deadline_s + DEADLINE_GRACE_S:
                self._stop_at_deadline(elapsed)
            if interrupt.wait(POLL_S):
                raise RunInterruptedError(
                    f"interrupted: job {self._id} goes on. The next `pulumi up` follows it; "
                    f"`{self._request.stop_command}` stops it. Log so far: {self._log_path}"
                )

    def _poll(self) -> JobState | None:
        """The job's state; None while the head does not answer, for at most UNREACHABLE_S."""
        try:
            state = self._api.job(self._id)
            self._reached_at = time.monotonic()
        except JobUnknownError:
            raise self._settled(self._lost()) from None
        except ReportedError as error:
            raise ReportedError(
                self._failure(f"job {self._id} goes on, as far as is known, but cannot be followed: {error}")
            ) from None
        except requests.RequestException as error:
            silent = time.monotonic() - self._reached_at
            if silent > UNREACHABLE_S:
                reason = self._api.endpoint.why_unreachable() or type(error).__name__
                raise ReportedError(
                    self._failure(
                        f"the Ray head has not answered for {silent:.0f} s ({reason}); job {self._id} goes on unseen, "
                        "until its deadline at most, or is lost with the head. The next `pulumi up` repairs the "
                        "cluster and follows or repeats the job"
                    )
                ) from None
            return None
        else:
            return state

    def _lost(self) -> str:
        _, session = persisting(self._api.version)
        if session != self._session:
            what = f"the Ray head was replaced while job {self._id} ran, and its job table is gone"
        else:
            what = f"job {self._id} was deleted from the Ray head"
        return self._failure(f"{what}: {self._request.next_up}")

    def _stop_at_deadline(self, elapsed: float) -> None:
        ended = stop_and_wait(self._api, self._id)
        self._log.finish(wait_s=5)
        raise ReportedError(
            self._failure(
                f"job {self._id} was past its deadline (jobDeadlineSeconds: {self._request.deadline_s:.0f}) "
                f"after {elapsed:.0f} s "
                + (
                    "and was stopped"
                    if ended
                    else f"and did not stop within {STOP_WAIT_S:.0f} s: try `{self._request.stop_command}`"
                ),
                after=self._request.next_up if self._request.goes_on else "",
            )
        )

    def _settled(self, message: str) -> ReportedError:
        """An error that this job will never get over; kept beside its log, so that it is not collected again."""
        return self._request.settle(self._log_path.parent, message)

    def _failure(self, headline: str, message: str = "", after: str = "") -> str:
        # Ray's own message quotes the end of the log as it was printed.
        return failure_text(
            headline,
            self._progress.last_useful_lines(),
            self._log_path,
            self._redact(message),
            [self._progress.last_step(), after],
        )


def stop_and_wait(api: JobsApi, identifier: str) -> bool:
    """Asks a job to stop; True once it has ended."""
    try:
        persisting(lambda: api.stop(identifier))
        until = time.monotonic() + STOP_WAIT_S
        while time.monotonic() < until:
            if persisting(lambda: api.job(identifier)).ended:
                return True
            time.sleep(POLL_S / 2)
    except JobUnknownError:
        return True
    return False


def persisting(call: Callable[[], T], *, say: Callable[[str], None] | None = None) -> T:
    """Repeats a call that can be repeated while its connection breaks; raises ReportedError after UNREACHABLE_S."""
    deadline = time.monotonic() + UNREACHABLE_S
    while True:
        try:
            return call()
        except (ConnectionError, requests.RequestException) as error:
            if time.monotonic() > deadline:
                raise ReportedError(f"{str(error)[:300]}; `pulumi up` brings a dead cluster back up") from error
            if say is not None:
                say(f"{str(error)[:300]}: trying for {UNREACHABLE_S:.0f} s")
                say = None
            time.sleep(POLL_S)
