"""`efactl logs`: whose log it is, which lines, and what never gets out; the head is a server of this machine."""

import datetime
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from efactl import __main__ as efactl
from efactl.exit_codes import ExitCode
from efactl.logs import logs
from tests.support.json_server import JsonServer
from tests.support.known_stack import KnownStack, job, local_cluster, secret
from workload.errors import ReportedError
from workload.log_selection import OfRank, everything
from workload.run_folder import BEGUN, ERROR, RECORD, begin, end_log

TOKEN, PASSWORD = "the-token-of-the-head", "hf_of-the-job"
RUNNING, ENDED = "ray-train-fsdp-llm-0f3a-2", "ray-train-fsdp-llm-0f3a-1"
PRINTED = f"\x1b[36m(RayTrainWorker pid=7)\x1b[0m with {PASSWORD}\n[train] step 1/4 loss 6.0\n"


class World:
    """A stack whose head has a table of jobs and a log of each, and the folder of its runs."""

    def __init__(self, head: JsonServer, folder: Path) -> None:
        self.head, self.runs = head, folder / "runs"
        held = local_cluster(address=head.url, token=secret(TOKEN), other=secret(PASSWORD))
        self.stack = KnownStack([held, job("of-state")])

    def jobs(self, **status_by_id: str) -> None:
        """By the last character of their ids."""
        for number, status in status_by_id.items():
            identifier = f"{RUNNING[:-1]}{number[1:]}"
            entry = {"submission_id": identifier, "status": status, "start_time": int(number[1:]), "end_time": 1}
            self.head.answers["/api/jobs/"] = [*self.head.answers["/api/jobs/"], entry]
            self.head.answers[f"/api/jobs/{identifier}/logs"] = {"logs": PRINTED}

    def kept(self, identifier: str, content: str, *, ended: str = "") -> None:
        """`ended` is the file that says of a run that its log was followed to its end; by default it was not."""
        folder = self.runs / identifier
        folder.mkdir(parents=True)
        (folder / "job.log").write_text(content)
        if ended == BEGUN:
            end_log(folder)
        elif ended:
            (folder / ended).write_text("{}")

    def show(self, select: Any = everything, *, follow: bool = False) -> ExitCode:
        return logs(self.stack, select, follow=follow, runs=self.runs)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with JsonServer({"/api/jobs/": []}, token=TOKEN) as head:
        yield World(head, tmp_path)


def test_of_a_running_job_the_head_has_the_log_and_it_is_shown_without_secrets_and_colour(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.jobs(n1="SUCCEEDED", n2="RUNNING")
    world.kept(RUNNING, "what was followed before\n")
    assert world.show() == ExitCode.OK
    assert capsys.readouterr().out == "(RayTrainWorker pid=7) with ***\n[train] step 1/4 loss 6.0\n"


@pytest.mark.parametrize("ended", [BEGUN, RECORD])
def test_of_a_job_that_was_followed_to_its_end_the_log_on_this_machine_is_shown(
    world: World, ended: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.jobs(n1="FAILED")
    world.kept(ENDED, "as it was followed\n", ended=ended)
    world.kept("of-state", "an older one\n")
    assert world.show() == ExitCode.OK
    shown, notes = capsys.readouterr()
    assert shown == "as it was followed\n"
    assert ENDED in notes


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("left", ["", ERROR])
def test_of_a_job_that_was_not_followed_to_its_end_the_head_has_the_rest(
    world: World, left: str, follow: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """An `up` that was interrupted leaves the log as far as it came, and one whose connection broke an error beside."""
    world.jobs(n1="FAILED")
    world.kept(ENDED, "[train] step 1/4 loss 6.0\n", ended=left)
    whole = "[train] step 1/4 loss 6.0\n[train] step 2/4 loss 5.0\nRuntimeError: the reason\n"
    world.head.answers[f"/api/jobs/{ENDED}/logs"] = {"logs": whole}
    assert world.show(follow=follow) == ExitCode.OK
    shown, notes = capsys.readouterr()
    assert shown == whole
    assert "as far as" not in notes


@pytest.mark.parametrize("status", ["FAILED", "RUNNING"])
@pytest.mark.parametrize("head", ["refuses", "has none"])
def test_where_the_head_cannot_give_the_rest_it_is_said_how_far_the_log_goes(
    world: World, status: str, head: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.jobs(n1=status)
    world.kept(ENDED, "(RayTrainWorker pid=7) as far as it was followed\n")
    if head == "refuses":
        world.head.refused = {f"/api/jobs/{ENDED}/logs": 500}
    else:
        world.head.answers[f"/api/jobs/{ENDED}/logs"] = {"logs": ""}
    assert world.show() == ExitCode.OK
    shown, notes = capsys.readouterr()
    assert shown == "(RayTrainWorker pid=7) as far as it was followed\n"
    assert f"the log, as far as it was followed here, of {ENDED}" in notes


def test_of_a_job_that_nobody_followed_here_the_heads_log_is_shown(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.jobs(n1="SUCCEEDED")
    world.kept("of-state", "an older one\n")
    assert world.show() == ExitCode.OK
    assert "[train] step 1/4" in capsys.readouterr().out


def test_where_no_head_answers_the_run_in_state_is_shown_and_it_is_said(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.kept("of-state", "of the run in state\n")
    world.kept("newer", "of another stack\n")
    world.head.refused = {"/api/jobs/": 500}
    assert world.show() == ExitCode.OK
    shown, notes = capsys.readouterr()
    assert shown == "of the run in state\n"
    assert "whether a job runs is not known" in notes
    assert "as far as it was followed here" in notes


def begun(world: World, identifier: str, stack: str, at: str) -> None:
    world.kept(identifier, f"the log of {identifier}\n")
    begin(world.runs / identifier, stack=stack, started_at=datetime.datetime.fromisoformat(at).timestamp())


def test_a_log_of_another_stack_is_never_shown(world: World) -> None:
    world.kept("newer", "of nobody knows which stack\n")
    begun(world, "newest", "kubernetes", "2026-11-30T10:00:00Z")
    with pytest.raises(ReportedError, match="stack local has no run whose log could be shown"):
        world.show()


def test_of_a_stack_s_own_runs_the_newest_is_shown_where_nothing_else_names_one(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that failed leaves nothing in the state."""
    begun(world, "later", "local", "2026-11-30T10:00:00Z")
    begun(world, "earlier", "local", "2026-11-30T09:00:00Z")
    begun(world, "latest", "kubernetes", "2026-11-30T11:00:00Z")
    assert world.show() == ExitCode.OK
    shown, notes = capsys.readouterr()
    assert shown == "the log of later\n"
    assert "the newest log of stack local in runs/" in notes


def test_a_stack_without_any_run_says_so(world: World) -> None:
    world.runs.mkdir()
    with pytest.raises(ReportedError, match="stack local has no run whose log could be shown"):
        world.show()


def test_a_rank_that_the_log_does_not_have_is_said_with_those_it_has(world: World) -> None:
    world.jobs(n1="SUCCEEDED")
    world.kept(
        ENDED,
        ended=RECORD,
        content="(TrainController pid=6) - (ip=127.0.0.1, pid=7) world_rank=0, local_rank=0, node_rank=0\n",
    )
    with pytest.raises(ReportedError, match=r"no line of that rank; it names ranks 0"):
        world.show(OfRank(3))


def test_a_reader_that_goes_away_ends_it_quietly(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.jobs(n1="SUCCEEDED")
    world.kept(ENDED, "line\n" * 100_000, ended=RECORD)
    reading, writing = os.pipe()
    os.close(reading)
    with io.open(writing, "w") as closed:  # noqa: UP020 - a plain text file over a pipe
        monkeypatch.setattr(sys, "stdout", closed)
        assert world.show() == ExitCode.OK
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--rank", "-1"], ["--rank", "x"], ["--rank", "1", "--nccl"]])
def test_a_selection_that_cannot_be_is_a_bad_command_line(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        efactl.main(["logs", *arguments])
    assert caught.value.code == ExitCode.BAD_INPUT
