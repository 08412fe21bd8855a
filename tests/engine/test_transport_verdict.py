"""A run over NCCL on the real engine, its lines and counters replayed: what the gate says, and again from the state."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.marked_run import MarkedRun
from tests.support.nccl_run import Run
from tests.support.project import Project
from workload.run_record import schema_problems

pytestmark = pytest.mark.engine

OVER_EFA = MarkedRun(run=Run(hosts=("node-a", "node-b"), gpus=2))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("verdict")
    evidence = folder / "evidence.json"
    evidence.write_text(json.dumps({"lines": OVER_EFA.log(), "ranks": OVER_EFA.ranks()}))
    project = Project(folder / "project", expect="efa", jobEnv={"QUICK_EVIDENCE": str(evidence)})
    yield project
    project.clean()


@pytest.fixture(scope="module")
def record(project: Project) -> dict[str, Any]:
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert "gate: transport proven (4 of 4 ranks on 2 nodes report backend nccl; delivery: all 100 lines" in done.stdout
    content: dict[str, Any] = json.loads(Path(project.folder, project.outputs()["run"]["record"]).read_text())
    return content


def test_an_up_over_efa_is_proven_and_its_record_shows_the_hosts(project: Project, record: dict[str, Any]) -> None:
    assert schema_problems(record) == []
    assert record["verdict"]["value"] == "proven"
    assert project.outputs()["run"]["verdict"] == "proven"
    assert {"from": "node-a", "to": "node-b", "via": {"NET/Libfabric": 2}} in record["transport"]["matrix"]
    assert project.changes() == {}


def test_another_expectation_is_judged_from_the_state_alone(project: Project, record: dict[str, Any]) -> None:
    before = project.runs()
    Path(project.folder, record["log"]["path"]).unlink()
    project.set(expect="socket")
    done = project.up()
    assert done.returncode != 0
    assert "transport refuted: expected socket" in done.stdout
    assert "via NET/Libfabric/0, told by pid 71 on node-a, expected socket (job.log:" in done.stdout
    assert "not over sockets" in done.stdout
    assert "Traceback" not in done.stdout
    project.set(expect="efa")
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert project.changes() == {}
    assert project.runs() == before, "a run is not repeated to be judged again"
