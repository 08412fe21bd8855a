"""What breaks between a running job and whoever follows it: the job goes on, or one clear error says what to do."""

import json
import re
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.bed_project import BedProject
from tests.support.cutting_proxy import CuttingProxy
from tests.support.running_up import RunningUp, running_up
from tools.bed import Bed

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

UP_S, JOB_S = 450.0, 240.0
STEPS = 60
HOLD = "hold-is-over"


@pytest.fixture(scope="module")
def project(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BedProject]:
    project = BedProject(
        tmp_path_factory.mktemp("job-faults") / "project",
        bed,
        f"job-faults-{secrets.token_hex(3)}",
        kubeReadySeconds=400,
    )
    yield project
    project.clean()


def goes_on_for(project: BedProject, seconds: int, run_id: str) -> None:
    """Makes the next `up` run a job whose log grows for so long."""
    project.set(jobRunId=run_id, trainSteps=STEPS, jobEnv={"QUICK_PER_NODE": "1", "QUICK_SECONDS": str(seconds)})


def holds(project: BedProject, run_id: str) -> None:
    """Makes the next `up` run a job that waits after step 2 until `let_go`."""
    env = {"QUICK_PER_NODE": "1", "QUICK_HOLD": f"/mnt/ray-train/{run_id}-{HOLD}"}
    project.set(jobRunId=run_id, trainSteps=STEPS, jobEnv=env)


def let_go(project: BedProject, run_id: str) -> None:
    (project.claim_folder() / f"{run_id}-{HOLD}").touch()


def assert_whole(log: Path) -> None:
    """Every step's line is there once, in its order."""
    said = re.findall(r"^\[train\] step (\d+)/", log.read_text(), flags=re.MULTILINE)
    assert [int(step) for step in said] == list(range(1, STEPS + 1))


def record_of(up: RunningUp) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((up.folder / "record.json").read_text())
    return record


def through(proxy: CuttingProxy, bed: Bed, folder: Path) -> str:
    """A kubeconfig that leads through the proxy."""
    path = folder / "through-proxy.kubeconfig"
    path.write_text(bed.kubeconfig.read_text().replace(bed.server, f"https://127.0.0.1:{proxy.port}"))
    path.chmod(0o600)
    return str(path)


def test_an_api_server_that_restarts_in_mid_job_costs_no_line_of_its_log(project: BedProject, bed: Bed) -> None:
    goes_on_for(project, 40, "api-server")
    with running_up(project) as up:
        up.reaches(2, seconds=UP_S)
        bed.restart_api_server()
        up.succeeds(seconds=JOB_S)
        assert_whole(up.folder / "job.log")
        assert record_of(up)["verdict"]["value"] == "proven"
    assert project.outputs()["run"]["verdict"] == "proven"


def test_a_port_forward_that_is_cut_every_five_seconds_costs_no_line(
    project: BedProject, bed: Bed, tmp_path: Path
) -> None:
    proxy = CuttingProxy(urlsplit(bed.server).port or 0)
    goes_on_for(project, 40, "cuts")
    project.set(kubeconfig=through(proxy, bed, tmp_path))
    try:
        with running_up(project) as up:
            up.says("submitted", seconds=UP_S)
            cuts = 0
            while cuts < 60:
                try:
                    up.process.wait(timeout=5)
                    break
                except subprocess.TimeoutExpired:
                    proxy.cut()
                    cuts += 1
            up.succeeds(seconds=1)
            assert cuts >= 6
            assert_whole(up.folder / "job.log")
            record = record_of(up)
            assert record["verdict"]["value"] == "proven"
    finally:
        proxy.close()
        project.set(kubeconfig=str(bed.kubeconfig))


def test_a_head_that_is_deleted_before_the_run_is_waited_for(project: BedProject, bed: Bed) -> None:
    old = project.head()
    bed.kubectl("delete", "pod", old, "-n", project.namespace, "--wait=false")
    goes_on_for(project, 0, "before")
    with running_up(project) as up:
        output = up.succeeds(seconds=UP_S + JOB_S)
        assert_whole(up.folder / "job.log")
    assert project.head() != old
    assert f"RayCluster {project.namespace}/ray: 2 workers and the head are Ready" in output
    assert output.index("head are Ready") < output.index("submitted")


def test_a_head_that_is_deleted_in_mid_run_ends_the_up_with_that_reason_and_the_next_one_runs_it_again(
    project: BedProject, bed: Bed
) -> None:
    holds(project, "during")
    with running_up(project) as up:
        up.reaches(2, seconds=UP_S)
        bed.kubectl("delete", "pod", project.head(), "-n", project.namespace, "--wait=false")
        output = up.fails(seconds=JOB_S)
        lost, settled = up.job, up.folder / "error.txt"
        assert f"the Ray head was replaced while job {lost} ran, and its job table is gone" in output
        assert "the next `pulumi up` runs it again" in output
        assert f"full log: runs/{lost}/job.log" in output
        assert "was replaced" in settled.read_text(), "kept beside the log, so that nobody takes it for unfinished"
    let_go(project, "during")
    with running_up(project) as again:
        again.succeeds(seconds=UP_S + JOB_S)
        assert again.job != lost
        assert_whole(again.folder / "job.log")
    assert project.outputs()["run"]["submissionId"] == again.job


def test_a_head_that_is_deleted_after_the_run_is_waited_for_and_nothing_runs_again(
    project: BedProject, bed: Bed
) -> None:
    before, runs, old = project.outputs()["run"], project.runs(), project.head()
    bed.kubectl("delete", "pod", old, "-n", project.namespace, "--wait=false")
    with running_up(project) as up:
        output = up.succeeds(seconds=UP_S)
    assert "submitted" not in output
    assert (project.outputs()["run"], project.runs()) == (before, runs)
    assert project.head() != old
    ready = {c.type: c.status for c in project.pods("head")[project.head()].status.conditions}
    assert ready["Ready"] == "True", "the `up` returned once the new head was there"
