"""The example stack from its first preview to its end, with AWS and EKS as stand-ins and a real Kubernetes."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.standin_project import StandinProject
from tools.bed import Bed, start_bed


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A control plane without a node."""
    with start_bed(tmp_path_factory.mktemp("empty"), nodes=(), operator=False, devices="by plugin") as bed:
        yield bed


@pytest.fixture(scope="module")
def project(empty: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandinProject]:
    project = StandinProject(tmp_path_factory.mktemp("eks") / "project", bed=empty)
    try:
        yield project
    finally:
        project.clean()


@pytest.fixture(scope="module")
def first_up(project: StandinProject) -> str:
    first = project.changes()
    assert set(first.values()) == {"create"}
    assert {"ray-reservation-capacity", "ray-eks-cluster-eksCluster", "ray-gpu-group", "train"} <= set(first)
    return project.must("up", "--yes", "--skip-preview")


def nodes(bed: Bed) -> dict[str, list[dict[str, Any]]]:
    """By node group."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for node in bed.api.list("/api/v1/nodes"):
        groups.setdefault(node["metadata"]["labels"]["eks.amazonaws.com/nodegroup"], []).append(node)
    return groups


def test_an_up_ends_proven_on_nodes_that_its_node_groups_brought(
    empty: Bed, project: StandinProject, first_up: str
) -> None:
    assert project.outputs()["run"]["verdict"] == "proven", first_up
    groups = nodes(empty)
    assert sorted(map(len, groups.values())) == [1, 2]
    gpu = next(found for found in groups.values() if len(found) == 2)
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in gpu} == {"1"}
    assert {node["status"]["allocatable"]["vpc.amazonaws.com/efa"] for node in gpu} == {"1"}
    assert {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in gpu} == {"us-west-2b"}


def test_an_up_without_a_change_changes_nothing(project: StandinProject, first_up: str) -> None:
    assert project.changes() == {}


def test_a_destroy_leaves_nothing_in_the_account_and_no_node(
    empty: Bed, project: StandinProject, first_up: str
) -> None:
    project.must("destroy", "--yes", "--skip-preview")
    assert project.remaining() == []
    assert project.state() == []
    assert nodes(empty) == {}
