"""`efactl runs` over what the real engine's `up`s left."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import Project

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """With two runs that succeeded, the second of more steps, and one that failed."""
    project = Project(tmp_path_factory.mktemp("runs") / "project")
    try:
        assert project.up().returncode == 0
        project.set(trainSteps=6)
        assert project.up().returncode == 0
        project.set(jobEnv={"QUICK_END": "fail"})
        assert project.up().returncode != 0
        yield project
    finally:
        project.clean()


def runs(project: Project, *words: str) -> Any:
    command = [sys.executable, "-m", "efactl", "runs", *words, "--json"]
    done = subprocess.run(command, cwd=project.folder, env=project.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_run_is_listed_and_what_separates_them_is_named(project: Project) -> None:
    failed, later, earlier = runs(project, "list")["runs"]
    assert failed["problem"].startswith(f"failed: job {failed['id']} ended as FAILED")
    assert [(run["stack"], run["platform"], run["verdict"]) for run in (later, earlier)] == [
        ("local", "local", "proven")
    ] * 2
    assert [run["id"] for run in runs(project, "list", "-s", "local", "--verdict", "proven")["runs"]] == [
        later["id"],
        earlier["id"],
    ]
    told = runs(project, "diff", earlier["id"], later["id"])
    assert told["causes"] == ["argument"]
    assert [one["path"] for one in told["differences"] if one["role"] == "cause"] == ["arguments.steps"]
    record = runs(project, "show", later["id"])
    assert record == json.loads((Path(later["place"]) / "record.json").read_text())
