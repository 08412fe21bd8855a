"""Ray's JobSubmissionClient with time limits, and its answers as this product needs them."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from ray.exceptions import AuthenticationError
from ray.job_submission import JobSubmissionClient

from workload.errors import ReportedError
from workload.head import Endpoint
from workload.staging import staged

CONNECT_S, ANSWER_S = 5, 60
AGENT_WAIT_S = 60.0
TERMINAL = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


for name in (
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    "ray._private.runtime_env.packaging",
):
    logging.getLogger(name).setLevel(logging.WARNING)


class JobUnknownError(Exception):
    """The head answers, and has no job of this id."""


class _TimedClient(JobSubmissionClient):  # type: ignore[misc]
    """Ray sends its requests without a time limit: a frozen head would hold the caller for ever."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        super().__init__(endpoint.url, headers=dict(endpoint.headers))

    def _do_request(self, method: str, endpoint: str, **options: Any) -> Any:
        try:
            return super()._do_request(method, endpoint, **{"timeout": (CONNECT_S, ANSWER_S), **options})
        except AuthenticationError as error:
            reason = str(error).splitlines()[0]
            raise ReportedError(f"the Ray head at {self._address} refused the token: {reason}") from None
        except requests.ConnectionError as error:
            raise type(error)(self._endpoint.unreachable()) from error


@dataclass(frozen=True, kw_only=True)
class JobState:
    """A job's entry in the head's table; times are Unix seconds on the head's clock, 0.0 where not reached."""

    submission_id: str
    status: str
    message: str
    started_at: float
    ended_at: float

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL


class JobsApi:
    """The Jobs API of one head. Raises OSError-like errors of `requests` when the head cannot be reached, and
    ReportedError when it is known that it will not be."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        try:
            self.client = _TimedClient(endpoint)
        except ConnectionError as error:
            raise ConnectionError(endpoint.unreachable()) from error
        except RuntimeError as error:
            raise ReportedError(f"the Ray head at {endpoint.url} refused: {str(error)[:300]}") from error

    def version(self) -> tuple[str, str]:
        """(Ray version, session name); the session changes whenever the head is replaced."""
        answer = self.client._do_request("GET", "/api/version")
        answer.raise_for_status()
        body = answer.json()
        return body["ray_version"], body.get("session_name") or ""

    def jobs(self) -> list[JobState]:
        return [_state(details) for details in self.client.list_jobs() if details.submission_id]

    def job(self, submission_id: str) -> JobState:
        """Raises JobUnknownError when the head answers without knowing the job."""
        answer = self.client._do_request("GET", f"/api/jobs/{submission_id}")
        if answer.status_code == 404:
            raise JobUnknownError(submission_id)
        answer.raise_for_status()
        return _state_of_json(answer.json())

    def submit(
        self,
        submission_id: str,
        *,
        entrypoint: str,
        training: Path,
        env: Mapping[str, str],
        secret_env: Mapping[str, str],
        metadata: Mapping[str, str],
    ) -> bool:
        """Submits once; False when a job of this id already exists. The staged copy does not outlive the call."""
        with staged(training, secret_env) as folder:
            until = time.monotonic() + AGENT_WAIT_S
            while True:
                try:
                    self.client.submit_job(
                        entrypoint=entrypoint,
                        submission_id=submission_id,
                        runtime_env={"working_dir": str(folder), "env_vars": dict(env)},
                        metadata=dict(metadata),
                    )
                except RuntimeError as error:
                    if "already exists" in str(error):
                        return False
                    # A head answers before its own agent, which starts the drivers, has registered.
                    if "No available agent" in str(error) and time.monotonic() < until:
                        time.sleep(0.5)
                        continue
                    raise ReportedError(f"the Ray head refused job {submission_id}: {str(error)[:600]}") from error
                return True

    def stop(self, submission_id: str) -> None:
        answer = self.client._do_request("POST", f"/api/jobs/{submission_id}/stop")
        if answer.status_code == 404:
            raise JobUnknownError(submission_id)
        answer.raise_for_status()


def _state(details: Any) -> JobState:
    return JobState(
        submission_id=details.submission_id,
        status=str(details.status.value if hasattr(details.status, "value") else details.status),
        message=details.message or "",
        started_at=(details.start_time or 0) / 1000,
        ended_at=(details.end_time or 0) / 1000,
    )


def _state_of_json(body: Mapping[str, Any]) -> JobState:
    return JobState(
        submission_id=body["submission_id"],
        status=body["status"],
        message=body.get("message") or "",
        started_at=(body.get("start_time") or 0) / 1000,
        ended_at=(body.get("end_time") or 0) / 1000,
    )


def running(states: Sequence[JobState]) -> list[JobState]:
    return [state for state in states if not state.ended]
