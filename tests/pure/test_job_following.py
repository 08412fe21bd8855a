"""What a job that is followed leaves and says before its end; the head is a stand-in."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.compared import request
from workload import job, job_following
from workload.errors import ReportedError, RunInterruptedError
from workload.job_following import Following, JobRequest
from workload.jobs_api import JobState


class NoLog:
    """In place of the thread that reads one."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def abandon(self) -> None:
        pass


@pytest.fixture(autouse=True)
def no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_following, "LogStream", NoLog)


def running(identifier: str) -> JobState:
    return JobState(submission_id=identifier, status="RUNNING", message="", started_at=1_790_000_000.0, ended_at=0.0)


def of(folder: Path, stack: str) -> JobRequest:
    return dataclasses.replace(request(folder), stack=stack, deadline_s=1e12)


def followed(folder: Path, stack: str) -> Following:
    state = running("run-1")
    api: Any = SimpleNamespace(client=None, job=lambda _: state)
    return Following(api, of(folder, stack), state, 1, "session", "2.58.0", lambda _: None)


def test_whose_a_run_is_and_since_when_is_on_disk_before_its_end(tmp_path: Path) -> None:
    followed(tmp_path, "dev")
    told = json.loads((tmp_path / "runs" / "run-1" / "begun.json").read_text())
    assert told == {"stack": "dev", "startedAt": "2026-09-21T14:13:20.000+00:00"}


@pytest.mark.parametrize(("stack", "command"), [("dev", "efactl stop -s dev"), ("", "efactl stop")])
def test_what_stops_an_interrupted_job_names_its_stack(tmp_path: Path, stack: str, command: str) -> None:
    interrupt = Event()
    interrupt.set()
    with pytest.raises(RunInterruptedError, match=f"`{command}` stops it"):
        followed(tmp_path, stack).to_the_end(interrupt)


@pytest.mark.parametrize("ids", [["ray-train-fsdp-llm-0f3a-1"], ["by-other-means"]])
def test_what_stops_a_job_that_is_in_the_way_names_the_stack(tmp_path: Path, ids: Sequence[str]) -> None:
    said: list[str] = []
    try:
        job._mind_others([running(one) for one in ids], of(tmp_path, "dev"), said.append)
    except ReportedError as error:
        said.append(str(error))
    assert "`efactl stop -s dev` stops" in said[0]
