"""An `up` that ends before its job does: training goes on, the next `up` follows it, nothing is left behind."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra import local_nodes
from tests.local.conftest import head_of
from tests.support.project import Project, end_group, wait_for
from workload.head import reach
from workload.jobs_api import JobsApi

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A stack whose cluster is up already, so that every test starts with the job."""
    project = Project(tmp_path_factory.mktemp("interrupted") / "project", jobRunId="warm")
    try:
        project.must("up", "--yes", "--skip-preview")
        yield project
    finally:
        project.clean()


def held(project: Project) -> Path:
    """Makes the next job wait after its second step for the file returned."""
    release = project.folder / f"release-{time.monotonic_ns()}"
    project.set(jobEnv={"QUICK_HOLD": str(release)})
    return release


def interrupted(project: Project, number: signal.Signals) -> str:
    """Starts a held job, sends the signal once it runs; the output of the `up`, which has to end by itself."""
    process = project.start_up()
    try:
        wait_for(lambda: "step 1/4" in project.said(), seconds=90, what="the job's first step")
        # A terminal's Ctrl-C reaches the whole foreground group; TERM and KILL come to one process.
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        process.wait(timeout=60)
        return project.said()
    finally:
        end_group(process)


def status(project: Project, submission_id: str) -> str:
    cluster = local_nodes.load(local_nodes.cluster_directory(project.folder, project.stack))
    assert cluster is not None
    with reach(head_of(cluster)) as endpoint:
        return JobsApi(endpoint).job(submission_id).status


def providers(project: Project) -> list[psutil.Process]:
    """Dynamic providers that still run in this project's folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if "pulumi.dynamic" in " ".join(process.cmdline()) and process.cwd() == str(project.folder):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full), signal.SIGKILL]
)
def test_the_next_up_follows_the_job_that_an_interrupted_one_started(project: Project, number: signal.Signals) -> None:
    project.set(jobRunId=f"run {number.name}")
    release = held(project)
    before = set(project.runs())
    output = interrupted(project, number)
    (started,) = set(project.runs()) - before
    if number != signal.SIGKILL:
        assert f"interrupted: job {started} goes on" in output
        assert "efactl stop" in output
    wait_for(lambda: not providers(project), seconds=30, what=f"no provider is left after {number.name}")
    process = project.start_up(efactl=True)
    try:
        following = f"job {started} is already running: following it"
        wait_for(lambda: following in project.said(), seconds=90, what="the next up follows")
        release.touch()
        assert process.wait(timeout=90) == 0, project.said()
    finally:
        end_group(process)
    assert set(project.runs()) - before == {started}, "it is the same run"
    assert project.outputs()["run"]["submissionId"] == started
    log = (project.folder / "runs" / started / "job.log").read_text()
    assert [log.count(f"step {n}/4") for n in (1, 2, 3, 4)] == [1, 1, 1, 1], "no line is lost or doubled"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_efactl_passes_an_interruption_on_and_says_so_by_its_code(project: Project, number: signal.Signals) -> None:
    project.set(jobRunId=f"efactl {number.name}")
    release = held(project)
    process = project.start_up(efactl=True)
    try:
        wait_for(lambda: "step 1/4" in project.said(), seconds=90, what="the job's first step")
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.wait(timeout=60) == 130
        assert "goes on" in project.said()
        release.touch()
        assert project.efactl("up").returncode == 0, "no lock and no pulumi is left"
    finally:
        end_group(process)


def test_a_job_that_ended_while_nobody_followed_is_collected(project: Project) -> None:
    project.set(jobRunId="collected")
    release = held(project)
    before = set(project.runs())
    interrupted(project, signal.SIGTERM)
    (started,) = set(project.runs()) - before
    release.touch()
    wait_for(lambda: status(project, started) == "SUCCEEDED", seconds=60, what="the job's end")
    done = project.efactl("up")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"job {started} finished while nobody followed it" in done.stdout
    assert set(project.runs()) - before == {started}


def test_of_two_ups_at_once_the_second_is_told_and_disturbs_nothing(project: Project) -> None:
    project.set(jobRunId="two")
    release = held(project)
    process = project.start_up()
    try:
        wait_for(lambda: "step 1/4" in project.said(), seconds=90, what="the job's first step")
        second = project.efactl("up")
        assert second.returncode != 0
        assert "locked" in (second.stdout + second.stderr)
        release.touch()
        assert process.wait(timeout=90) == 0, project.said()
    finally:
        end_group(process)


def test_a_job_that_someone_stops_is_no_success(project: Project) -> None:
    project.set(jobRunId="stopped")
    held(project)
    process = project.start_up()
    try:
        wait_for(lambda: "step 1/4" in project.said(), seconds=90, what="the job's first step")
        stopped = project.efactl("stop")
        assert stopped.returncode == 0, stopped.stderr
        assert process.wait(timeout=60) != 0
    finally:
        end_group(process)
    assert "ended as STOPPED" in project.said()
    assert "full log: runs/" in project.said()
    assert project.efactl("stop").stdout.strip() == "no job is running"


def test_a_failed_job_is_an_error_and_the_next_up_makes_another_attempt(project: Project) -> None:
    project.set(jobRunId="failing", jobEnv={"QUICK_END": "fail"})
    failed = project.up()
    assert failed.returncode != 0
    assert "ended as FAILED" in failed.stdout
    assert "--dataset: 'nowhere' does not exist" in failed.stdout
    assert "Traceback" not in failed.stdout
    again = project.up()
    assert "ended as FAILED: this is attempt 2" in again.stdout


def test_destroy_in_mid_run_ends_job_and_cluster(project: Project) -> None:
    project.set(jobRunId="destroyed")
    held(project)
    interrupted(project, signal.SIGINT)
    directory = local_nodes.cluster_directory(project.folder, project.stack)
    done = project.efactl("down")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not directory.exists()
    assert project.state() == []


@pytest.mark.parametrize(
    "delay", [pytest.param(0.0, marks=pytest.mark.full), 1.0, pytest.param(2.0, marks=pytest.mark.full)]
)
def test_killed_while_the_cluster_starts_nothing_of_it_is_left(tmp_path: Path, delay: float) -> None:
    project = Project(tmp_path / "project")
    directory = local_nodes.cluster_directory(project.folder, project.stack)
    process = project.start_up()
    try:
        wait_for(lambda: "starting Ray" in project.said(), seconds=60, what="the cluster's start")
        time.sleep(delay)
        if "Ray is up" in project.said():  # on a fast machine it can be: then the state has it
            return
        process.kill()
        process.wait()
        # Nothing of it is left, or all of it where it was up in that moment: the next `up` takes that over.
        wait_for(
            lambda: not directory.exists() or local_nodes.inspect(directory).state == "running",
            seconds=60,
            what="the half-started cluster is taken down",
        )
        done = project.efactl("up")
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        end_group(process)
        project.clean()
