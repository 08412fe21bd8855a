"""Copies of records in a bucket, by the real engine: made with each judgement, made up for where one failed."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.project import Project
from tests.training.s3_server import BUCKET, S3Server, serving

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def project(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Of a first run without copies: its environment leads to the server."""
    project = Project(tmp_path_factory.mktemp("records") / "project")
    try:
        done = project.up()
        assert done.returncode == 0, done.stdout
        project.set(recordsPath=f"s3://{BUCKET}/team")
        yield project
    finally:
        project.clean()


def run_of(project: Project) -> str:
    return str(project.outputs()["run"]["submissionId"])


def record_in(s3: S3Server, run: str) -> dict[str, Any]:
    body = s3.client.get_object(Bucket=BUCKET, Key=f"team/{run}/record.json")["Body"].read()
    record: dict[str, Any] = json.loads(body)
    return record


def listed(project: Project) -> list[str]:
    command = [sys.executable, "-m", "efactl", "runs", "list", "-s", project.stack, "--json"]
    done = subprocess.run(command, cwd=project.folder, env=project.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [one["id"] for one in json.loads(done.stdout)["runs"]]


def test_a_place_that_is_set_later_is_no_run_and_gets_the_last_one(project: Project, s3: S3Server) -> None:
    run = run_of(project)
    assert project.changes() == {"gate": "update"}
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert f"run {run} copied to s3://{BUCKET}/team/{run}" in done.stdout
    assert record_in(s3, run)["quality"]["passed"] is True
    assert sorted(s3.keys(f"team/{run}/")) == [
        f"team/{run}/{name}" for name in ("begun.json", "job.log", "record.json")
    ]


def test_an_unchanged_up_is_no_change_and_needs_no_bucket(project: Project) -> None:
    reached = project.environment["AWS_ENDPOINT_URL"]
    project.environment["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
    try:
        assert project.changes() == {}
        done = project.up()
        assert done.returncode == 0 and "unchanged" in done.stdout and "warning" not in done.stdout, done.stdout
    finally:
        project.environment["AWS_ENDPOINT_URL"] = reached


def test_a_run_that_the_gate_fails_is_copied_as_failed_and_anew_once_it_passes(project: Project, s3: S3Server) -> None:
    run = run_of(project)
    project.set(gateMaxEvalLoss="0.0001")
    assert project.up().returncode != 0
    assert record_in(s3, run)["quality"]["passed"] is False
    project.set(gateMaxEvalLoss=None)
    assert project.up().returncode == 0
    assert record_in(s3, run)["quality"]["passed"] is True
    assert project.changes() == {}


def test_a_copy_that_is_denied_fails_no_run_and_the_next_up_makes_it(project: Project, s3: S3Server) -> None:
    project.set(jobRunId="denied")
    with s3.denying("s3:PutObject"):
        done = project.up()
        assert done.returncode == 0, done.stdout
        run = run_of(project)
        assert f"warning: run {run} was not copied to s3://{BUCKET}/team/{run}: " in done.stdout
        assert project.changes() == {"gate": "update"}
    before = project.runs()
    assert project.up().returncode == 0
    assert project.runs() == before, "no run"
    assert record_in(s3, run)["submissionId"] == run
    assert project.changes() == {}


def test_a_job_that_fails_leaves_its_error_and_its_log_there(project: Project, s3: S3Server) -> None:
    before = set(project.runs())
    project.set(jobEnv={"QUICK_END": "fail"})
    assert project.up().returncode != 0
    (failed,) = set(project.runs()) - before
    assert sorted(s3.keys(f"team/{failed}/")) == [
        f"team/{failed}/{name}" for name in ("begun.json", "error.txt", "job.log")
    ]
    project.set(jobEnv=None)
    assert project.up().returncode == 0


def test_the_commands_of_the_stack_find_what_is_no_longer_here(project: Project) -> None:
    known = listed(project)
    shutil.move(project.folder / "runs", project.folder / "elsewhere")
    try:
        assert sorted(listed(project)) == sorted(known)
        done = project.efactl("report", known[0], "-o", "page.html")
        assert done.returncode == 0, done.stderr
        assert project.changes() == {}, "a record that is not on this machine is no reason for a change"
    finally:
        shutil.move(project.folder / "elsewhere", project.folder / "runs")
