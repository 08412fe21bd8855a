"""The example stack from its first preview to its end, with AWS and EKS as stand-ins and a real Kubernetes."""

from collections.abc import Iterator
from typing import Any

import pytest

from efactl.exit_codes import ExitCode
from tests.support.stack_plan import Plan, called, plan, unpermitted
from tests.support.standin_project import StandinProject
from tools.bed import Bed, start_bed


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A control plane without a node."""
    with start_bed(tmp_path_factory.mktemp("empty"), nodes=(), operator=False, devices="by plugin") as bed:
        yield bed


@pytest.fixture(scope="module")
def project(empty: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandinProject]:
    project = StandinProject(tmp_path_factory.mktemp("eks") / "project", bed=empty, eksVersion="1.34")
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


def test_everything_that_can_be_tagged_carries_the_stacks_tags(project: StandinProject, first_up: str) -> None:
    tagged = [entry for entry in project.remaining() if "tagsAll" in entry.outputs]
    assert len(tagged) > 20
    for entry in tagged:
        assert {"ray-train-efa/stack": "dev", "team": "ml-platform"}.items() <= entry.outputs["tagsAll"].items(), entry


def test_an_up_without_a_change_changes_nothing(project: StandinProject, first_up: str) -> None:
    assert plan(project).same == named_in_state(project)


def test_after_a_refresh_a_preview_has_no_change(project: StandinProject, first_up: str) -> None:
    project.must("refresh", "--yes", "--skip-preview")
    assert plan(project).same == named_in_state(project)


def named_in_state(project: StandinProject) -> set[str]:
    """But for the engine's own providers, of which a preview says nothing."""
    names = {called(resource["urn"]) for resource in project.state()}
    return {name for name in names if not name.partition(" ")[2].startswith("default")}


def assert_exactly(found: Plan, project: StandinProject, **expected: set[str]) -> None:
    """Exactly these changes, and all else that is there as it is."""
    for what in ("created", "updated", "replaced", "deleted"):
        assert getattr(found, what) == expected.get(what, set()), f"{what}\n{found}"
    assert found.same == named_in_state(project) - found.updated - found.replaced - found.deleted


def test_another_argument_of_the_job_runs_it_again_and_touches_nothing_else(
    project: StandinProject, first_up: str
) -> None:
    found = plan(project, trainSteps=5)
    assert_exactly(found, project, replaced={"RayTrainJob train"}, updated={"RunGate gate"})


def test_another_image_replaces_rays_pods_and_keeps_the_nodes(project: StandinProject, first_up: str) -> None:
    found = plan(project, rayImage="registry.example/mirror/ray:another")
    assert_exactly(
        found,
        project,
        replaced={"RayCluster ray-kubernetes-cluster-raycluster", "RayTrainJob train"},
        updated={
            "DaemonSet ray-kubernetes-cluster-head-image-pull",
            "DaemonSet ray-kubernetes-cluster-image-pull",
            "RayClusterReady ray-kubernetes-ready",
            "RunGate gate",
        },
    )


def test_one_node_more_enlarges_the_reservation_and_the_group_in_place(project: StandinProject, first_up: str) -> None:
    found = plan(project, gpuNodes=3)
    assert_exactly(
        found,
        project,
        replaced={"RayTrainJob train"},
        updated={
            "CapacityReservation ray-reservation-capacity",
            "NodeGroup ray-gpu-group",
            "GpuNodesReady ray-kubernetes-nodes-nodes",
            "RayCluster ray-kubernetes-cluster-raycluster",
            "RayClusterReady ray-kubernetes-ready",
            "RunGate gate",
        },
    )


def test_the_next_version_of_kubernetes_updates_control_plane_nodes_and_addons_in_place(
    project: StandinProject, first_up: str
) -> None:
    found = plan(project, eksVersion="1.35")
    assert_exactly(
        found,
        project,
        updated={
            "Cluster ray-eks-cluster-eksCluster",
            "NodeGroup ray-system-group",
            "NodeGroup ray-gpu-group",
            "Addon ray-node-addons-kube-proxy",
            "Addon ray-node-addons-vpc-cni",
            "Addon ray-core-addons-coredns",
        },
    )


def test_another_instance_type_replaces_reservation_and_gpu_nodes_and_keeps_cluster_and_network(
    project: StandinProject, first_up: str
) -> None:
    found = plan(project, gpuInstanceType="g6.16xlarge")
    assert_exactly(
        found,
        project,
        replaced={
            "CapacityReservation ray-reservation-capacity",
            "NodeGroup ray-gpu-group",
            "RayCluster ray-kubernetes-cluster-raycluster",
        },
        updated={
            "LaunchTemplate ray-gpu-template",
            "GpuNodesReady ray-kubernetes-nodes-nodes",
            # Both keep off nodes of the GPU nodes' type.
            "DaemonSet ray-kubernetes-cluster-head-image-pull",
            "Release ray-kubernetes-addons-kuberay-operator",
        },
    )


def test_another_zone_moves_reservation_gpu_nodes_and_nat_and_keeps_the_control_plane(
    project: StandinProject, first_up: str
) -> None:
    found = plan(project, gpuZone="us-west-2a")
    nat = ("Eip ray-network-nat", "NatGateway ray-network-nat", "Subnet ray-network-public")
    in_zone = (*nat, "RouteTableAssociation ray-network-public")
    assert_exactly(
        found,
        project,
        created={f"{name}-us-west-2a" for name in in_zone},
        deleted={f"{name}-us-west-2b" for name in in_zone},
        replaced={
            "CapacityReservation ray-reservation-capacity",
            "NodeGroup ray-gpu-group",
            "RayCluster ray-kubernetes-cluster-raycluster",
        },
        updated={
            "LaunchTemplate ray-gpu-template",
            "Route ray-network-private-us-west-2a",
            "Route ray-network-private-us-west-2b",
            "GpuNodesReady ray-kubernetes-nodes-nodes",
            "DaemonSet ray-kubernetes-cluster-image-pull",
        },
    )


def test_left_at_efa_the_run_ends_refuted_without_running_again(project: StandinProject, first_up: str) -> None:
    runs = project.runs()
    project.set(expect="efa")
    done = project.efactl("up")
    project.set(expect="gloo")
    assert done.returncode == ExitCode.REFUTED, done.stdout
    assert "backend gloo, expected efa" in done.stdout
    assert "still there, and billing" in done.stderr
    assert project.runs() == runs


def test_a_destroy_leaves_nothing_in_the_account_and_no_node(
    empty: Bed, project: StandinProject, first_up: str
) -> None:
    # Network interfaces outlive what used them: what they hold on to is asked for again.
    project.set_scenario(linger=600)
    project.must("destroy", "--yes", "--skip-preview")
    assert project.remaining() == []
    assert project.state() == []
    assert nodes(empty) == {}
    assert unpermitted(project) == []
