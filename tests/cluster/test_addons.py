"""A stack that brings its device plugins and its operator along, on a cluster that has nothing but nodes."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.versions import EFA_CHART, KUBERAY_CHART, NVIDIA_CHART
from tests.support.bed_project import BedProject
from tests.support.helm import releases
from tests.support.inventory import inventory
from tools.bed import Bed, start_bed
from tools.bed.bed import LIMIT_S
from tools.bed.charts import chart_folder
from tools.bed.nodes import EFA, GPU

NAMESPACE = "all-own"
RELEASES = {f"{NAMESPACE}-{chart.name}" for chart in (EFA_CHART, KUBERAY_CHART, NVIDIA_CHART)}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """One system node and two GPU nodes whose kubelets know no device; no operator, no CRD."""
    with start_bed(tmp_path_factory.mktemp("bare"), operator=False, devices="by plugin") as bed:
        yield bed


@pytest.fixture(scope="module")
def before(bare: Bed) -> set[str]:
    return inventory(bare)


@pytest.fixture(scope="module")
def project(bare: Bed, before: set[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[BedProject]:
    charts = str(chart_folder())
    project = BedProject(
        tmp_path_factory.mktemp("addons") / "project",
        bare,
        NAMESPACE,
        addonNvidiaPlugin="install",
        addonNvidiaPluginRepository=charts,
        addonEfaPlugin="auto",
        addonEfaPluginRepository=charts,
        addonKubeRay="auto",
        addonKubeRayRepository=charts,
    )
    try:
        yield project
    finally:
        project.clean()


@pytest.fixture(scope="module")
def first_preview(project: BedProject) -> dict[str, str]:
    return project.changes()


@pytest.fixture(scope="module")
def first_up(project: BedProject, first_preview: dict[str, str]) -> str:
    return project.must("up", "--yes", "--skip-preview")


def devices(bed: Bed) -> dict[str, tuple[str | None, str | None]]:
    """GPUs and EFA interfaces that each GPU node gives out."""
    nodes = bed.api.list("/api/v1/nodes?labelSelector=role%3Dgpu-worker")
    offered = {node["metadata"]["name"]: node["status"]["allocatable"] for node in nodes}
    return {name: (allocatable.get(GPU), allocatable.get(EFA)) for name, allocatable in offered.items()}


def in_the_cluster(project: BedProject) -> set[str]:
    """The objects of the cluster that the state has."""
    return {resource["urn"] for resource in project.state() if resource["type"].startswith("kubernetes:")}


def test_a_preview_before_any_kind_or_namespace_exists_shows_the_whole_stack(
    bare: Bed, first_preview: dict[str, str]
) -> None:
    assert set(first_preview.values()) == {"create"}
    wanted = {"ray-cluster-namespace", "ray-cluster-raycluster", "ray-ready", "train", "gate"}
    wanted |= {f"ray-addons-{chart.name}" for chart in (EFA_CHART, KUBERAY_CHART, NVIDIA_CHART)}
    assert wanted <= set(first_preview)
    assert devices(bare) == {"gpu-1": (None, None), "gpu-2": (None, None)}


def test_an_up_installs_what_is_missing_waits_for_the_devices_and_runs_the_job(
    bare: Bed, project: BedProject, first_up: str
) -> None:
    assert releases(bare) == dict.fromkeys(RELEASES, "deployed")
    assert devices(bare) == {"gpu-1": ("1", "1"), "gpu-2": ("1", "1")}
    assert project.outputs()["run"]["verdict"] == "proven"
    order = [
        first_up.index(f"{made} created")
        for made in ("Release ray-addons-nvidia-device-plugin", "GpuNodesReady ray-nodes-nodes", "ray-ready")
    ]
    assert order == sorted(order), "nodes are looked at once their plugins are there, pods made once they are ready"


def test_an_unchanged_up_changes_nothing(project: BedProject, first_up: str) -> None:
    runs = project.runs()
    project.must("up", "--yes", "--skip-preview")
    assert project.changes() == {}
    assert project.runs() == runs


def test_a_destroy_while_the_api_server_is_gone_ends_soon_and_loses_nothing(
    bare: Bed, project: BedProject, first_up: str
) -> None:
    state, held = in_the_cluster(project), inventory(bare)
    bare.stop_api_server()
    try:
        began = time.monotonic()
        first = project.efactl("down")
        plain = project.pulumi("destroy", "--yes", "--skip-preview")
        # By now the state has lost what is not in the cluster, the head among it.
        last = project.efactl("down")
        took = time.monotonic() - began
    finally:
        bare.start_api_server()
    for down in (first, last):
        assert down.returncode == 1
        assert "Nothing was destroyed: run again once the cluster answers" in down.stderr
    assert plain.returncode != 0
    assert "unreachable" in plain.stdout
    assert took < 120
    assert in_the_cluster(project) == state
    assert held - inventory(bare) == set()


def test_a_destroy_takes_the_operator_last_and_leaves_nothing(
    bare: Bed, project: BedProject, first_up: str, before: set[str]
) -> None:
    output = project.must("destroy", "--yes", "--skip-preview")
    order = [output.index(f"{gone} deleted") for gone in ("ray-cluster-raycluster", "ray-addons-kuberay-operator")]
    assert order == sorted(order), "the operator takes down the cluster's pods, so it goes after the cluster"
    assert project.state() == []
    assert releases(bare) == {}
    # Helm removes the DaemonSets of the device plugins; their pods go after them, in their own time.
    plugins = "/api/v1/namespaces/kube-system/pods"
    bare.wait_until("the device plugins' pods are gone", LIMIT_S, lambda: not bare.api.list(plugins))
    # Helm leaves the kinds that a chart brings: their removal would take every Ray cluster with it.
    left = {item for item in inventory(bare) - before if not item.startswith("customresourcedefinitions ")}
    assert left == set()


def test_after_the_destroy_the_same_stack_can_be_previewed_again(project: BedProject, tmp_path: Path) -> None:
    assert set(project.changes().values()) == {"create"}
