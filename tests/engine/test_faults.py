"""What breaks under a real training run: each fault ends in recovery or in one clear error, by the deadline."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from infra import local_nodes
from tests.support.project import Project, end_group, wait_for

pytestmark = [pytest.mark.engine, pytest.mark.full]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    project = Project(
        tmp_path_factory.mktemp("faults") / "project", quick=False, trainCheckpointEvery=4, jobDeadlineSeconds=150
    )
    yield project
    project.clean()


def directory_of(project: Project) -> Path:
    return local_nodes.cluster_directory(project.folder, project.stack)


def cluster_of(project: Project) -> local_nodes.LocalCluster:
    cluster = local_nodes.load(directory_of(project))
    assert cluster is not None
    return cluster


def broken_while_training(project: Project, breaking: Callable[[], None], *, run_id: str) -> str:
    """Starts a long run, breaks something once a checkpoint exists; the output of the `up` that has to fail."""
    project.set(jobRunId=run_id, trainSteps=5000)
    process = project.start_up()
    try:
        wait_for(lambda: "checkpoint step 4 " in project.said(), seconds=120, what="the first checkpoint")
        breaking()
        assert process.wait(timeout=280) != 0
    finally:
        end_group(process)
    return project.said()


def recovers(project: Project, *, run_id: str) -> None:
    project.set(jobRunId=run_id, trainSteps=2)
    done = project.efactl("up")
    assert done.returncode == 0, done.stdout + done.stderr
    assert local_nodes.inspect(directory_of(project)).state == "running"


def test_a_head_that_is_killed_ends_the_run_with_a_reason_and_the_next_up_repairs(project: Project) -> None:
    def kill_head() -> None:
        for process in psutil.Process(cluster_of(project).nodes[0].pid).children(recursive=True):
            process.kill()
        psutil.Process(cluster_of(project).nodes[0].pid).kill()
        for process in psutil.process_iter():
            try:
                line = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if str(directory_of(project) / "h") in line:
                process.kill()

    output = broken_while_training(project, kill_head, run_id="head")
    assert "the Ray head has not answered for" in output
    assert "full log: runs/" in output
    assert "Traceback" not in output
    recovers(project, run_id="after head")


def test_a_worker_node_that_is_killed_ends_the_run_by_its_deadline(project: Project) -> None:
    output = broken_while_training(
        project, lambda: psutil.Process(cluster_of(project).nodes[-1].pid).kill(), run_id="worker"
    )
    assert "deadline" in output
    assert "full log: runs/" in output
    recovers(project, run_id="after worker")


def test_a_full_disk_under_the_checkpoints_is_named(project: Project, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system to fill needs root")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(small)], check=True)
    try:
        project.set(jobRunId="full", trainSteps=8, storagePath=str(small), trainMaxFailures=0)
        done = project.up()
        assert done.returncode != 0
        assert "--storage_path" in done.stdout
        assert "No space left on device" in done.stdout
    finally:
        project.set(storagePath="runs", trainMaxFailures=1)
        subprocess.run(["umount", "-l", str(small)], check=True)
    recovers(project, run_id="after full")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"trainModelId": "nobody/no-such-model"}, ("--model_id", "nobody/no-such-model")),
        ({"trainSeqLen": 100_000}, ("100000",)),
    ],
)
def test_bad_input_is_one_clear_error(project: Project, settings: dict[str, object], said: tuple[str, ...]) -> None:
    project.set(jobRunId=f"bad {sorted(settings)[0]}", trainSteps=2, **settings)
    done = project.up()
    project.set(trainModelId="tiny-qwen2", trainSeqLen=256)
    assert done.returncode != 0
    for text in said:
        assert text in done.stdout
    assert "Traceback" not in done.stdout
    assert "full log: runs/" in done.stdout
