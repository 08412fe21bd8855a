"""`efactl compare` on a real stack: its run stays what it was, and an interrupted comparison leaves nothing running."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from infra import local_nodes
from tests.local.conftest import head_of
from tests.support.project import Project, end_group, wait_for
from workload import job

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    project = Project(tmp_path_factory.mktemp("compared") / "project")
    try:
        project.must("up", "--yes", "--skip-preview")
        yield project
    finally:
        project.clean()


def unfinished(project: Project) -> list[str]:
    cluster = local_nodes.load(local_nodes.cluster_directory(project.folder, project.stack))
    assert cluster is not None
    return job.unfinished(head_of(cluster))


def reports(project: Project) -> list[dict[str, Any]]:
    return [
        json.loads(path.read_text()) for path in sorted((project.folder / "runs").glob("compare-*/comparison.json"))
    ]


def test_a_comparison_is_not_the_stacks_run(project: Project) -> None:
    before = project.outputs()["run"]
    done = project.efactl("compare", "--no-bandwidth", "--json")
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    assert whole["status"] == "complete" and len(whole["runs"]) == 6
    assert {run["verdict"]["value"] for run in whole["runs"]} == {"proven"}
    assert whole["ratio"]["value"] == 1 and whole["ratio"]["insideNoise"], "the quick job always reports one speed"
    assert before["submissionId"] not in {run["submissionId"] for run in whole["runs"]}
    assert project.outputs()["run"] == before
    assert project.changes() == {}, "nothing to do for an `up`"
    assert "[gloo-lazy 3/3] transport proven, expected gloo" in done.stderr


def test_an_interrupted_comparison_keeps_its_result_and_leaves_nothing_running(project: Project) -> None:
    arms = {"a": {"expect": "gloo"}, "held": {"expect": "gloo", "env": {"QUICK_HOLD": "/nowhere/release"}}}
    project.set(compareArms=arms)
    said = project.folder / "compare.err"
    process = subprocess.Popen(
        [sys.executable, "-m", "efactl", "compare", "-s", project.stack, "--no-bandwidth", "--json"],
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=said.open("w"),
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(lambda: "[held 1/3] step 1/13" in said.read_text(), seconds=120, what="the second job's first step")
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=90)
    finally:
        end_group(process)
        project.set(compareArms=None)
    assert process.returncode == 130, said.read_text()
    assert json.loads(out) == reports(project)[-1]
    assert reports(project)[-1]["status"] == "interrupted"
    assert [run["arm"] for run in reports(project)[-1]["runs"]] == ["a"]
    assert unfinished(project) == []


def test_changed_training_code_is_refused(project: Project) -> None:
    train = project.folder / "training" / "train.py"
    before = train.read_text()
    train.write_text(before + "\n# changed\n")
    try:
        done = project.efactl("compare")
    finally:
        train.write_text(before)
    assert done.returncode == 1
    assert "training/ is not what the stack's last run ran" in done.stderr


@pytest.mark.full
def test_a_stack_setting_makes_one_after_the_job_and_a_changed_minimum_only_judges_again(project: Project) -> None:
    project.set(compareRepeats=3)
    assert project.changes() == {"compare": "create", "compare-gate": "create"}
    done = project.efactl("up")
    assert done.returncode == 0, done.stderr + done.stdout
    first = project.outputs()["comparison"]
    begun = [name for name in project.runs() if name.startswith("compare-")]
    assert first["result"]["status"] == "complete" and first["result"]["insideNoise"] is True
    assert first["result"]["arms"] == ["gloo", "gloo-lazy"]
    (size,) = json.loads((project.folder / first["report"]).read_text())["busBandwidth"]
    assert size["gbs"] == {"gloo": 1.5, "gloo-lazy": 1.5}
    assert (project.folder / first["report"]).with_name("comparison.txt").exists()
    assert project.changes() == {}

    project.set(compareMinSpeedup="1.5")
    assert project.changes() == {"compare-gate": "update"}
    done = project.efactl("up")
    assert done.returncode == 6, done.stderr + done.stdout
    assert "below compareMinSpeedup 1.5" in done.stdout + done.stderr
    assert [name for name in project.runs() if name.startswith("compare-")] == begun, "nothing was run again"

    project.set(compareMinSpeedup="0.9")
    assert project.efactl("up").returncode == 0
    assert project.outputs()["comparison"] == first
    assert project.changes() == {}
