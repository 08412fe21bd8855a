"""A stack of the kubernetes platform from its first preview to its end: the real engine, provider and operator."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.ray_cluster_spec import DASHBOARD_PORT, STORAGE_MOUNT
from tests.support.bed_project import SETTINGS, BedProject
from tests.support.inventory import inventory
from tests.support.project import end_all, end_group, wait_for
from tools.bed import Bed
from workload.run_record import schema_problems

NAMESPACE = "whole-path"
ENV = {**SETTINGS["jobEnv"], "QUICK_DASHBOARD": f"http://127.0.0.1:{DASHBOARD_PORT}"}
OTHER_IMAGE = "registry.example/mirror/ray:another"
# For a busy machine; a quiet one needs a fifth.
LIMIT_S = 240


@pytest.fixture(scope="module")
def before(bed: Bed) -> set[str]:
    return inventory(bed)


@pytest.fixture(scope="module")
def project(bed: Bed, before: set[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[BedProject]:
    """Its kubeconfig is a copy, so that a test can lead it elsewhere."""
    folder = tmp_path_factory.mktemp("whole-path")
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(bed.kubeconfig.read_text())
    project = BedProject(folder / "project", bed, NAMESPACE, kubeconfig=str(kubeconfig), jobEnv=ENV)
    try:
        yield project
    finally:
        kubeconfig.write_text(bed.kubeconfig.read_text())
        project.clean()


@pytest.fixture(scope="module")
def first_preview(project: BedProject) -> dict[str, str]:
    return project.changes()


@pytest.fixture(scope="module")
def first_up(project: BedProject, first_preview: dict[str, str]) -> str:
    return project.must("up", "--yes", "--skip-preview")


def uids(project: BedProject, role: str = "") -> dict[str, str]:
    return {name: str(pod.metadata.uid) for name, pod in project.pods(role).items()}


def processes(bed: Bed) -> list[psutil.Process]:
    """Those of this machine that run in the stack's pods, where each container has a PID namespace."""
    states = [json.loads(path.read_text()) for path in (bed.directory / "agent" / "pods").glob(f"{NAMESPACE}_*.json")]
    namespaces = {_pid_namespace(pid) for state in states for pid in state["containers"].values()}
    return [process for process in psutil.process_iter(["name"]) if _pid_namespace(process.pid) in namespaces]


def _pid_namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def last_run(project: BedProject) -> dict[str, Any]:
    """The record of the run in state."""
    record: dict[str, Any] = json.loads((project.folder / project.outputs()["run"]["record"]).read_text())
    return record


def held(project: BedProject, name: str) -> Path:
    """Makes the next job a new one that waits after its second step for the file returned."""
    project.set(jobRunId=name, jobEnv={**ENV, "QUICK_HOLD": f"{STORAGE_MOUNT}/{name}"})
    return project.claim_folder() / name


def lead_to(project: BedProject, server: str) -> None:
    """Writes another API server's address into the stack's kubeconfig."""
    path = project.folder.parent / "kubeconfig"
    content = json.loads(path.read_text())
    content["clusters"][0]["cluster"]["server"] = server
    path.write_text(json.dumps(content))


def test_a_preview_before_the_namespace_exists_shows_the_whole_stack(first_preview: dict[str, str]) -> None:
    assert set(first_preview.values()) == {"create"}
    for name in ("ray-cluster-namespace", "ray-nodes-nodes", "ray-cluster-raycluster", "ray-ready", "train", "gate"):
        assert name in first_preview


def test_an_up_runs_the_job_to_its_verdict(project: BedProject, first_up: str) -> None:
    run = project.outputs()["run"]
    assert (run["status"], run["verdict"]) == ("SUCCEEDED", "proven")
    assert run["checkpoint"] == "" or run["checkpoint"].startswith(STORAGE_MOUNT)
    for text in ("workers and the head are Ready", "submitted", "step 1/4 loss", "gate: transport proven"):
        assert text in first_up
    assert (project.folder / "runs" / run["submissionId"] / "job.log").read_text().count("[train] step") == 4


def test_the_record_says_what_ran_and_on_which_machines(project: BedProject, first_up: str) -> None:
    record = last_run(project)
    assert schema_problems(record) == []
    pods = project.pods()
    (digest,) = {pod.status.container_statuses[0].image_id.partition("@")[2] for pod in pods.values()}
    assert digest.startswith("sha256:")
    assert record["image"]["digest"] == digest
    cluster = record["cluster"]
    assert (cluster["kind"], cluster["name"]) == ("kubernetes", "ray")
    nodes = {node["host"]: node for node in cluster["nodes"]}
    assert set(nodes) == set(project.pods("worker"))
    for name, node in nodes.items():
        machine = (node["machine"], node["zone"], node["instanceType"])
        assert machine == (pods[name].spec.node_name, "us-east-1a", "g6.8xlarge")


def test_efactl_shows_the_figures_of_the_run(project: BedProject, first_up: str) -> None:
    shown = project.efactl("outputs", "--json")
    assert shown.returncode == 0, shown.stderr
    figures = json.loads(shown.stdout)
    assert (figures["status"], figures["verdict"], figures["evalLossAfter"]) == ("SUCCEEDED", "proven", 5.0)
    assert figures["submissionId"] in project.efactl("outputs").stdout


def test_an_unchanged_up_changes_and_runs_nothing(project: BedProject, first_up: str) -> None:
    runs, pods = project.runs(), uids(project)
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert "unchanged" in done.stdout
    for word in ("created", "updated", "replaced", "deleted"):
        assert word not in done.stdout
    assert (project.runs(), uids(project)) == (runs, pods)


def test_after_a_refresh_a_preview_has_no_change(project: BedProject, first_up: str) -> None:
    project.must("refresh", "--yes", "--skip-preview")
    assert project.changes() == {}


def test_a_changed_argument_replaces_only_the_job(project: BedProject, first_up: str) -> None:
    runs, pods = project.runs(), uids(project)
    project.set(trainSteps=5)
    changes = project.changes()
    assert changes.pop("train") == "replace"
    assert set(changes) <= {"gate"}
    output = project.must("up", "--yes", "--skip-preview")
    assert "step 5/5" in output
    assert uids(project) == pods
    assert len(project.runs()) == len(runs) + 1


def test_another_image_or_variable_really_replaces_the_pods(project: BedProject, first_up: str) -> None:
    runs, pods = project.runs(), uids(project)
    project.set(rayEnv={"ADDED_BY_A_TEST": "1"})
    assert project.changes()["ray-cluster-raycluster"] == "replace"
    project.set(rayEnv=None, rayImage=OTHER_IMAGE)
    assert project.changes()["ray-cluster-raycluster"] == "replace"
    project.set(rayEnv={"ADDED_BY_A_TEST": "1"})
    project.must("up", "--yes", "--skip-preview")
    after = project.pods()
    assert len(after) == len(pods)
    assert not {pod.metadata.uid for pod in after.values()} & set(pods.values())
    for pod in after.values():
        (container,) = pod.spec.containers
        assert container.image == OTHER_IMAGE
        assert {"ADDED_BY_A_TEST": "1"}.items() <= {entry.name: entry.value for entry in container.env}.items()
    assert len(project.runs()) == len(runs) + 1
    assert last_run(project)["image"]["reference"] == OTHER_IMAGE


def test_one_node_more_keeps_the_pods_and_runs_again(project: BedProject, first_up: str) -> None:
    runs, pods = project.runs(), uids(project)
    project.set(gpuNodes=3)
    project.must("up", "--yes", "--skip-preview")
    after = uids(project)
    assert pods.items() < after.items()
    assert len(after) == 4
    assert len(project.runs()) == len(runs) + 1
    assert len(last_run(project)["cluster"]["nodes"]) == 3


def test_one_node_less_keeps_head_and_workers_and_runs_again(project: BedProject, first_up: str) -> None:
    runs, pods, head = project.runs(), uids(project), uids(project, "head")
    project.set(gpuNodes=2)
    project.must("up", "--yes", "--skip-preview")
    after = uids(project)
    assert after.items() < pods.items()
    assert len(after) == 3
    assert uids(project, "head") == head
    assert len(project.runs()) == len(runs) + 1
    assert set(uids(project, "worker")) == {node["host"] for node in last_run(project)["cluster"]["nodes"]}


def test_the_next_up_follows_the_job_that_interrupted_ones_left(project: BedProject, first_up: str) -> None:
    before = set(project.runs())
    release = held(project, "interrupted")
    orphans: list[psutil.Process] = []
    process = project.start_up()
    try:
        wait_for(lambda: "step 1/5" in project.said(), seconds=LIMIT_S, what="the job's first step")
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=LIMIT_S)
        (started,) = set(project.runs()) - before
        assert f"interrupted: job {started} goes on" in project.said()
        following = f"job {started} is already running: following it"
        process = project.start_up()
        wait_for(lambda: following in project.said(), seconds=LIMIT_S, what="the second up follows")
        orphans = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        process = project.start_up(efactl=True)
        wait_for(lambda: following in project.said(), seconds=LIMIT_S, what="the third up follows")
        release.touch()
        assert process.wait(timeout=LIMIT_S) == 0, project.said()
    finally:
        end_group(process)
        end_all(orphans)
    assert set(project.runs()) - before == {started}, "it is the same run"
    log = (project.folder / "runs" / started / "job.log").read_text()
    assert [log.count(f"step {n}/5") for n in range(1, 6)] == [1] * 5, "no line is lost or doubled"


def test_efactl_stops_the_job_and_the_up_that_follows_it_says_so(project: BedProject, first_up: str) -> None:
    held(project, "stopped")
    process = project.start_up()
    try:
        wait_for(lambda: "step 1/5" in project.said(), seconds=LIMIT_S, what="the job's first step")
        stopped = project.efactl("stop")
        assert stopped.returncode == 0, stopped.stderr
        assert process.wait(timeout=LIMIT_S) != 0
    finally:
        end_group(process)
    assert "ended as STOPPED" in project.said()
    assert project.efactl("stop").stdout.strip() == "no job is running"


@pytest.mark.parametrize("silent", [False, True], ids=["that refuses", "that is silent"])
def test_an_api_server_that_is_gone_ends_a_destroy_soon_and_untouched(
    project: BedProject, first_up: str, silent: bool
) -> None:
    before = [resource["urn"] for resource in project.state()]
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        lead_to(project, f"https://127.0.0.1:{nobody.getsockname()[1] if silent else 1}")
        began = time.monotonic()
        done = project.efactl("down")
        took = time.monotonic() - began
        lead_to(project, project.bed.server)
    assert done.returncode == 1
    assert "the API server cannot be reached" in done.stderr
    assert "Nothing was destroyed: run again once the cluster answers" in done.stderr
    assert f"PULUMI_K8S_DELETE_UNREACHABLE=true efactl down -s {project.stack}" in done.stderr
    assert took < 60
    assert [resource["urn"] for resource in project.state()] == before


def test_a_destroy_after_a_run_leaves_nothing(
    bed: Bed, project: BedProject, first_up: str, before: set[str], tmp_path: Path
) -> None:
    (tmp_path / "state.json").write_text(project.must("stack", "export"))
    running = processes(bed)
    assert any(process.info["name"] == "raylet" for process in running)
    project.must("destroy", "--yes", "--skip-preview")
    assert project.state() == []
    assert inventory(bed) - before == set()
    assert not [process for process in running if process.is_running()]
    # A cluster that is gone for good is forgotten on demand: the same state, and nobody who answers.
    project.must("stack", "import", "--file", str(tmp_path / "state.json"))
    lead_to(project, "https://127.0.0.1:1")
    project.environment["PULUMI_K8S_DELETE_UNREACHABLE"] = "true"
    try:
        done = project.efactl("down")
    finally:
        del project.environment["PULUMI_K8S_DELETE_UNREACHABLE"]
        lead_to(project, bed.server)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is forgotten" in done.stderr
    assert project.state() == []


def test_a_down_in_mid_run_stops_the_job_and_leaves_nothing(
    bed: Bed, project: BedProject, first_up: str, before: set[str]
) -> None:
    project.set(jobRunId="mid-run", jobEnv={**ENV, "QUICK_HOLD": "/never"})
    process = project.start_up()
    try:
        wait_for(lambda: "step 1/5" in project.said(), seconds=LIMIT_S, what="the job's first step")
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=LIMIT_S)
    finally:
        end_group(process)
    running = processes(bed)
    done = project.efactl("down")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing of stack bed is left" in done.stdout
    assert "stop" in done.stderr
    assert project.state() == []
    assert inventory(bed) - before == set()
    assert not [process for process in running if process.is_running()]
