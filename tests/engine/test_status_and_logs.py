"""`efactl status` and `efactl logs` as a user calls them, beside an `up` of the real engine."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processor_time import measured
from tests.support.project import Project, end_group
from tests.support.running_up import RunningUp, running_up

pytestmark = pytest.mark.engine

SECRET = "hf_swordfish_19bc"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("status") / "project"
    project = Project(folder, jobEnv={"QUICK_SHOW": "=HF_TOKEN", "QUICK_HOLD": str(folder / "release")})
    project.set_secret("ray-train-efa:jobSecretEnv.HF_TOKEN", SECRET)
    try:
        yield project
    finally:
        project.clean()


def started(project: Project, *command: str) -> "subprocess.Popen[str]":
    """In a process group of its own, as a terminal would have it."""
    return subprocess.Popen(
        [sys.executable, "-m", "efactl", *command, "-s", project.stack],
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def read_until(process: "subprocess.Popen[str]", text: str) -> list[str]:
    assert process.stdout is not None
    read = []
    for line in process.stdout:
        read.append(line)
        if text in line:
            return read
    raise AssertionError(f"it ended without '{text}': {''.join(read)}{process.stderr.read() if process.stderr else ''}")


def look(project: Project, up: RunningUp) -> None:
    """All that is seen while the job waits after its second step."""
    status, took = measured(lambda: project.efactl("status", "--json"))
    assert took < 2, (
        "how much a status takes of the machine, Pulumi's part included; who else is busy there is no matter"
    )
    told = json.loads(status.stdout)
    assert (told["job"]["running"]["submissionId"], told["job"]["running"]["step"]) == (up.job, 2)
    assert told["rayCluster"]["problem"] is None
    assert told["cost"]["hoursUp"] is not None
    assert SECRET not in status.stdout + status.stderr

    log = project.efactl("logs")
    assert "step 2/4" in log.stdout
    assert "value of HF_TOKEN is ***" in log.stdout
    assert SECRET not in log.stdout + log.stderr

    follower = started(project, "logs", "-f")
    try:
        read_until(follower, "step 2/4")
        follower.send_signal(signal.SIGINT)
        assert follower.wait(30) == 130
        assert follower.stderr is not None
        said = follower.stderr.read()
        assert "goes on" in said
        assert "Traceback" not in said
    finally:
        end_group(follower)

    reader_gone = started(project, "logs", "-f")
    try:
        read_until(reader_gone, "entrypoint")
        assert reader_gone.stdout is not None
        reader_gone.stdout.close()
        assert not up.has_ended
    finally:
        # Nothing is written any more while the job waits: it notices once the job goes on.
        Path(project.folder / "release").touch()
    assert reader_gone.wait(60) == 0
    assert reader_gone.stderr is not None
    assert reader_gone.stderr.read().replace("efactl logs: ", "").strip() in ("", f"job {up.job} ended as SUCCEEDED")


def test_a_run_is_seen_and_followed_beside_its_up_and_judged_after_it(project: Project) -> None:
    with running_up(project) as up:
        up.says("submitted", seconds=180)
        up.reaches(2, seconds=120)
        look(project, up)
        up.succeeds(seconds=120)
    status = project.efactl("status", "--json")
    told = json.loads(status.stdout)
    assert status.returncode == 0
    assert told["job"]["running"] is None
    assert (told["lastRun"]["verdict"], told["lastRun"]["qualityPassed"]) == ("proven", True)
    assert told["cost"]["hourlyUsd"] == 0
    screen = project.efactl("status")
    assert "transport proven (expected gloo), quality passed" in screen.stdout
    assert screen.stderr == ""
    of_rank = project.efactl("logs", "--rank", "1")
    assert of_rank.returncode == 1, "the quick job has no ranks"
    assert "no line of that rank" in of_rank.stderr
    watch = started(project, "status", "--watch")
    try:
        read_until(watch, "last run")
        watch.send_signal(signal.SIGINT)
        assert watch.wait(30) == 0
        assert watch.stderr is not None
        assert watch.stderr.read() == ""
    finally:
        end_group(watch)
