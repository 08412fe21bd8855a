"""GPU nodes that are given back after their run, with the whole stack on stand-ins and a real Kubernetes."""

from collections.abc import Iterator

import pytest

from tests.support.stack_plan import plan
from tests.support.standin_project import StandinProject
from tools.bed import Bed, start_bed
from tools.standin import tokens

pytestmark = pytest.mark.full

RESERVATION = "CapacityReservation ray-reservation-capacity"


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with start_bed(tmp_path_factory.mktemp("empty"), nodes=(), operator=False, devices="by plugin") as bed:
        yield bed


@pytest.fixture(scope="module")
def project(empty: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandinProject]:
    project = StandinProject(tmp_path_factory.mktemp("guards") / "project", bed=empty, gpuScaleToZeroAfterJob=True)
    try:
        yield project
    finally:
        project.clean()


def gpu_nodes(bed: Bed) -> int:
    labels = [node["metadata"]["labels"] for node in bed.api.list("/api/v1/nodes")]
    return sum("-gpu" in found["eks.amazonaws.com/nodegroup"] for found in labels)


def test_the_up_after_a_run_gives_its_nodes_back_and_keeps_its_result(empty: Bed, project: StandinProject) -> None:
    project.must("up", "--yes", "--skip-preview")
    run = project.outputs()["run"]
    assert run["verdict"] == "proven"
    assert gpu_nodes(empty) == 2
    assert "give the GPU nodes back" in project.outputs()["commands"]

    project.must("up", "--yes", "--skip-preview")
    assert gpu_nodes(empty) == 0
    assert tokens.CAPACITY_RESERVATION not in {entry.token for entry in project.remaining()}
    assert project.outputs()["run"] == run
    assert project.outputs()["hourlyCostUsd"] < 1
    assert project.changes() == {}, "no run is due, so nothing comes back"
    project.must("refresh", "--yes", "--skip-preview")
    assert project.changes() == {}

    due = plan(project, trainSteps=5)
    assert {
        RESERVATION,
        "RayClusterReady ray-kubernetes-ready",
        "GpuNodesReady ray-kubernetes-nodes-nodes",
    } <= due.created
    assert {"NodeGroup ray-gpu-group", "RayCluster ray-kubernetes-cluster-raycluster"} <= due.updated
    assert "RayTrainJob train" in due.replaced
