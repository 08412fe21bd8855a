"""`efactl status` and `efactl logs` on a stack of the kubernetes platform: its objects, its head through the tunnel."""

import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from efactl.status.asking import why_unreachable
from infra.ray_cluster_spec import STORAGE_MOUNT
from tests.support.bed_project import SETTINGS, BedProject
from tests.support.processor_time import measured
from tests.support.project import wait_for
from tests.support.running_up import running_up
from tools.bed import Bed


@pytest.fixture
def namespace() -> str:
    """One that the stack makes itself."""
    return f"status-{secrets.token_hex(3)}"


@pytest.fixture
def project(bed: Bed, namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BedProject]:
    env = {**SETTINGS["jobEnv"], "QUICK_HOLD": f"{STORAGE_MOUNT}/release"}
    project = BedProject(tmp_path_factory.mktemp("status") / "project", bed, namespace, jobEnv=env)
    try:
        yield project
    finally:
        project.clean()


def test_a_stack_is_seen_while_its_job_runs_and_while_a_worker_is_missing(project: BedProject, namespace: str) -> None:
    with running_up(project) as up:
        up.says("submitted", seconds=240)
        up.reaches(2, seconds=120)
        _, took = measured(lambda: project.efactl("status", "--json"))
        # A second and a half of a fast machine's.
        assert took < 3, "of the processors, with what Pulumi takes of them: what else runs there is no matter"
        told = whole_status(project)
        workers = project.pods("worker")
        machines = {pod.spec.node_name for pod in workers.values()}
        assert machines <= {node["name"] for node in told["nodes"]}
        assert {pod["name"] for pod in told["pods"]} == set(project.pods())
        assert (told["rayCluster"]["workersReady"], told["rayCluster"]["workersWanted"]) == (2, 2)
        assert told["rayCluster"]["problem"] is None
        assert (told["ray"]["nodesAlive"], told["ray"]["problem"]) == (3, None)
        assert (told["job"]["running"]["step"], told["stack"]["namespace"]) == (2, namespace)
        assert "step 2/4" in project.efactl("logs").stdout
        (project.claim_folder() / "release").touch()
        up.succeeds(seconds=120)

    victim = min(workers)
    project.core.delete_namespaced_pod(victim, namespace)
    # Another takes its place, within seconds or minutes: how many there are at one moment is chance.
    wait_for(lambda: victim not in ready_workers(project), seconds=120, what="a status that counts the worker out")
    assert whole_status(project)["lastRun"]["verdict"] == "proven"


def ready_workers(project: BedProject) -> list[str]:
    return [pod["name"] for pod in whole_status(project)["pods"] if pod["role"] == "worker" and pod["ready"]]


def whole_status(project: BedProject) -> dict[str, Any]:
    """Asked again where a part had no answer in its few seconds, as a user of a busy machine would."""
    found: dict[str, Any] = {}

    def is_whole() -> bool:
        found.update(json.loads(project.efactl("status", "--json").stdout))
        return not any(why_unreachable(part) for part in found.values())

    wait_for(is_whole, seconds=120, what="a status of which every part has an answer")
    return found
