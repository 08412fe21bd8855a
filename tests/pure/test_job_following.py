"""What a job that is followed leaves and says before its end; the head is a stand-in."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.compared import request
from training import driver
from workload import job, job_following
from workload.errors import ReportedError, RunInterruptedError
from workload.job_following import Following, JobRequest
from workload.job_kind import BANDWIDTH
from workload.job_spec import submission_stem
from workload.jobs_api import JobState, JobUnknownError
from workload.run_folder import is_followed, is_settled


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


class OwnLog(NoLog):
    """A log of which all has been read: the job's lines come at its end."""

    lines: Sequence[str] = ()
    unwritten: str | None = None
    failure: str | None = None

    def __init__(self, *_: Any, on_line: Callable[[str], None], **__: Any) -> None:
        self._on_line = on_line

    def finish(self, **_: Any) -> None:
        for line in self.lines:
            self._on_line(line)


AGAIN = "the next `pulumi up` runs it again"
FROM_CHECKPOINT = f"{AGAIN}, from its newest checkpoint before the last step where there is one"


def how_it_ended(folder: Path, status: str, *lines: str, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> str:
    monkeypatch.setattr(job_following, "LogStream", OwnLog)
    monkeypatch.setattr(OwnLog, "lines", lines)
    asked = of(folder, "dev")
    spec = dataclasses.replace(asked.spec, arguments={**asked.spec.arguments, **arguments})
    asked = dataclasses.replace(asked, spec=spec)
    state = dataclasses.replace(running("run-1"), status=status)
    api: Any = SimpleNamespace(client=None, job=lambda _: state)
    with pytest.raises(ReportedError) as ended:
        Following(api, asked, state, 1, "session", "2.58.0", lambda _: None).to_the_end(Event())
    return str(ended.value)


@pytest.mark.parametrize(
    ("status", "lines", "told"),
    [
        ("STOPPED", (), True),
        ("FAILED", ("[train] step 40/60 loss 2.1", "[error] --deadline_s 9: the deadline passed"), True),
        ("FAILED", ("[error] --dataset: 'nowhere' does not exist",), False),
    ],
)
def test_a_run_that_ended_in_the_middle_says_where_the_next_up_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, lines: Sequence[str], told: bool
) -> None:
    assert (FROM_CHECKPOINT in how_it_ended(tmp_path, status, *lines, monkeypatch=monkeypatch)) == told


@pytest.mark.parametrize("cut_by", [None, "unwritten", "failure"])
def test_the_log_of_a_job_that_failed_is_whole_where_every_line_was_read_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_by: str | None
) -> None:
    if cut_by:
        monkeypatch.setattr(OwnLog, cut_by, "ConnectionError: the tunnel broke")
    how_it_ended(tmp_path, "FAILED", "[train] step 40/60 loss 2.1", monkeypatch=monkeypatch)
    folder = tmp_path / "runs" / "run-1"
    assert is_settled(folder)
    assert is_followed(folder) == (cut_by is None)


@pytest.mark.parametrize("arguments", [{"checkpoint_every": 0}, {"resume_from": "/shared/step-000020"}])
def test_of_a_run_that_begins_elsewhere_nothing_is_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    assert AGAIN not in how_it_ended(tmp_path, "STOPPED", monkeypatch=monkeypatch, **arguments)


def test_a_run_whose_head_was_replaced_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    def gone(_: str) -> JobState:
        raise JobUnknownError

    api: Any = SimpleNamespace(client=None, job=gone, version=lambda: ("2.58.0", "another session"))
    following = Following(api, of(tmp_path, "dev"), running("run-1"), 1, "session", "2.58.0", lambda _: None)
    with pytest.raises(ReportedError, match=f"the Ray head was replaced while job run-1 ran, .*: {FROM_CHECKPOINT}"):
        following.to_the_end(Event())
    assert not is_followed(tmp_path / "runs" / "run-1"), "its log is as far as it came"


def test_the_deadline_of_a_run_says_where_the_next_up_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_following, "LogStream", OwnLog)
    monkeypatch.setattr(job_following, "stop_and_wait", lambda *_: True)
    api: Any = SimpleNamespace(client=None, job=running)
    late = dataclasses.replace(of(tmp_path, "dev"), deadline_s=1.0)
    with pytest.raises(ReportedError, match=rf"past its deadline \(jobDeadlineSeconds: 1\)[^*]*{FROM_CHECKPOINT}"):
        Following(api, late, running("run-1"), 1, "session", "2.58.0", lambda _: None).to_the_end(Event())


def test_the_follower_waits_longer_than_a_driver_takes_to_tell_of_its_deadline() -> None:
    """Also where storage hangs and Ray does not answer; the rest is for the driver's start and for the log."""
    assert driver.ASK_RAY_S + driver.STORED_S <= job_following.DEADLINE_GRACE_S / 2


def given(request: JobRequest, argument: str) -> str | None:
    words = job._entrypoint(request, "an-id")
    return words[words.index(argument) + 1] if argument in words else None


def test_the_job_is_told_what_the_attempts_of_its_spec_share_and_a_measurement_is_not(tmp_path: Path) -> None:
    asked = of(tmp_path, "dev")
    stem = given(asked, "--spec_stem")
    assert stem is not None and all(
        submission_stem(asked.spec.digest(), session).startswith(f"{stem}-") for session in ("one", "two")
    )
    assert given(dataclasses.replace(asked, kind=BANDWIDTH), "--spec_stem") is None


def test_the_job_is_told_its_stack_which_a_head_that_was_replaced_does_not_change(tmp_path: Path) -> None:
    asked = of(tmp_path, "dev")

    def at(**head: Any) -> str | None:
        return given(dataclasses.replace(asked, head=dataclasses.replace(asked.head, **head)), "--stack")

    assert at() == at(address="http://127.0.0.1:10") != at(token="another stack's of the same name")
    assert at() is not None and asked.head.token not in str(at())
    untold = dataclasses.replace(asked, head=dataclasses.replace(asked.head, token=""))
    assert {given(untold, "--stack"), given(untold, "--spec_stem")} == {None}
    assert not untold.goes_on


def test_whose_a_run_is_and_since_when_is_on_disk_before_its_end(tmp_path: Path) -> None:
    followed(tmp_path, "dev")
    told = json.loads((tmp_path / "runs" / "run-1" / "begun.json").read_text())
    assert told == {"stack": "dev", "startedAt": "2026-09-21T14:13:20.000+00:00", "logFollowed": False}


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
