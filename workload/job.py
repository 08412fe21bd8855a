"""The life of one job: submit it or find it running, follow it to its end, stop it when its time is up."""

import dataclasses
import shlex
from collections.abc import Callable, Sequence
from threading import Event

import requests

from workload.errors import ReportedError
from workload.head import Endpoint, Head, reach
from workload.job_following import Following, JobOutcome, JobRequest, persisting, stop_and_wait
from workload.job_kind import is_ours
from workload.job_spec import attempt_of, command_line, spec_stem, submission_id, submission_stem
from workload.jobs_api import JobsApi, JobState, running
from workload.run_folder import create, is_settled

RUN_VARIABLE = "RAY_TRAIN_EFA_RUN"
# What NCCL must tell for a verdict. No part of a spec: what is told of a run decides no other.
DEFAULT_ENV = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV"}
# Without the first, Ray folds a line of one rank into another's whenever they differ only in words with digits.
FIXED_ENV = {"RAY_DEDUP_LOGS": "0", "RAY_COLOR_PREFIX": "0", "PYTHONUNBUFFERED": "1"}


def run(request: JobRequest, *, say: Callable[[str], None], interrupt: Event) -> JobOutcome:
    """Brings the job to its end and returns what it reported.

    Raises RunInterruptedError, with the job left running, when `interrupt` is set; ReportedError for any other failure.
    """
    create(request.runs)
    with reach(request.head) as endpoint:
        api = _connect(endpoint, say)
        ray_version, session = persisting(api.version)
        if ray_version != request.head.ray_version:
            raise ReportedError(
                f"the Ray head runs Ray {ray_version}, the RayCluster was declared with {request.head.ray_version}: "
                "use the image that was declared, or declare the version of the image"
            )
        stem = submission_stem(request.spec.digest(), session, request.kind.run_name)
        state, attempt = persisting(lambda: _submit_or_find(api, request, stem, say))
        return Following(api, request, state, attempt, session, ray_version, say).to_the_end(interrupt)


def stop(head: Head, *, say: Callable[[str], None]) -> list[str]:
    """Stops the head's unfinished jobs and waits until they have ended; returns their ids."""
    with reach(head) as endpoint:
        api = _connect(endpoint, say)
        targets = [job.submission_id for job in running(persisting(api.jobs))]
        for target in targets:
            say(f"stopping job {target}")
            stop_and_wait(api, target)
    return targets


def unfinished(head: Head) -> list[str]:
    """The ids of the head's jobs that have not ended; asks once. Raises ReportedError where no head answers."""
    with reach(head) as endpoint:
        try:
            return [job.submission_id for job in running(JobsApi(endpoint).jobs())]
        except (ConnectionError, requests.RequestException) as error:
            raise ReportedError(endpoint.unreachable()) from error


def _connect(endpoint: Endpoint, say: Callable[[str], None]) -> JobsApi:
    return persisting(lambda: JobsApi(endpoint), say=say)


def _submit_or_find(api: JobsApi, request: JobRequest, stem: str, say: Callable[[str], None]) -> tuple[JobState, int]:
    """An unfinished job of the same spec is followed; one that succeeded and was never collected is collected."""
    jobs = api.jobs()
    attempts = {attempt: job for job in jobs if (attempt := attempt_of(stem, job.submission_id)) is not None}
    for attempt, job in sorted(attempts.items(), reverse=True):
        if not job.ended:
            say(f"job {job.submission_id} is already running: following it")
            return job, attempt
        if job.status == "SUCCEEDED" and not is_settled(request.runs / job.submission_id):
            say(f"job {job.submission_id} finished while nobody followed it: collecting its result")
            return job, attempt
        say(f"job {job.submission_id} ended as {job.status}: this is attempt {attempt + 1}")
        break
    _mind_others(jobs, request, say)
    # A job deleted from the head's table has left its storage, where Train V2 would resume its own snapshot.
    stored = (attempt_of(stem, folder.name) or 0 for folder in request.runs.glob(f"{stem}-*"))
    attempt = max([*attempts, *stored], default=0) + 1
    identifier = submission_id(stem, attempt)
    if not api.submit(
        identifier,
        entrypoint=shlex.join(_entrypoint(request, identifier)),
        training=request.training,
        # A node remembers for ten minutes that an environment could not be set up there: each attempt has its own.
        env={**DEFAULT_ENV, **request.spec.env, **FIXED_ENV, RUN_VARIABLE: identifier},
        secret_env=request.spec.secret_env,
        metadata={"spec": request.spec.digest(), "attempt": str(attempt)},
    ):
        say(f"job {identifier} was submitted by someone else a moment ago: following it")
    else:
        say(f"job {identifier} submitted")
    # Its time runs from now: the start that the head notes is by the head's clock.
    return dataclasses.replace(api.job(identifier), started_at=0.0), attempt


def _mind_others(jobs: Sequence[JobState], request: JobRequest, say: Callable[[str], None]) -> None:
    """A job takes every accelerator: beside one of other inputs it would wait in silence until its own deadline.

    A job that was submitted by other means may hold none: it is only named.
    """
    ours = [job.submission_id for job in running(jobs) if is_ours(job.submission_id)]
    where = request.head.named
    if ours:
        raise ReportedError(
            f"job {', '.join(ours)}, of other inputs, still runs on {where} and holds its accelerators: "
            f"`{request.stop_command}` stops it, and whatever else runs there; then `pulumi up` again"
        )
    others = [job.submission_id for job in running(jobs)]
    if others:
        say(
            f"job {', '.join(others)}, submitted by other means, runs on {where} too: as long as it holds accelerators "
            f"this one waits, for at most {request.deadline_s:.0f} s (jobDeadlineSeconds); "
            f"`{request.stop_command}` stops both"
        )


def _entrypoint(request: JobRequest, identifier: str) -> list[str]:
    shares = request.kind.goes_on and bool(request.head.stack_mark)
    arguments = {
        **request.spec.arguments,
        "pip": list(request.spec.pip),
        "worker_resource": request.head.worker_resource,
        "num_workers": request.ranks,
        "storage_path": request.storage,
        "run_id": identifier,
        "spec_stem": spec_stem(request.spec.digest(), request.kind.run_name) if shares else None,
        "stack": request.head.stack_mark if shares else None,
        "deadline_s": request.deadline_s,
    }
    return ["python", "-m", request.kind.module, *command_line(arguments)]
