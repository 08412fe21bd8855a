"""Add-ons, nodes and storage that are not as they should be: the reason is said, and what was interrupted goes on."""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.versions import EFA_CHART, KUBERAY_CHART, NVIDIA_CHART
from tests.support.bed_project import BedProject
from tests.support.helm import releases
from tests.support.project import end_all, end_group, wait_for
from tools.bed import Bed, start_bed
from tools.bed.charts import chart_folder
from tools.bed.nodes import EFA, GPU
from tools.bed.volumes import STORAGE_CLASS

pytestmark = pytest.mark.full

NODES = ("gpu-1", "gpu-2")
PLUGINS = {
    "nvidia-device-plugin": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
    "aws-efa-k8s-device-plugin": "registry.example/eks/aws-efa-k8s-device-plugin:v0.5.20",
}
# Pods that ask for no device run on the system node, if they run at all.
WITHOUT_GPUS = {"gpuInstanceType": "", "gpuNodeSelector": {}, "rayWorkerCpu": "1", "rayWorkerMemory": "1Gi"}
Stack = Callable[..., BedProject]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """With KubeRay, one system node and two GPU nodes whose kubelets know no device."""
    with start_bed(tmp_path_factory.mktemp("cluster"), devices="by plugin") as bed:
        yield bed


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """The same without KubeRay."""
    with start_bed(tmp_path_factory.mktemp("bare"), operator=False, devices="by plugin") as bed:
        yield bed


@pytest.fixture
def stack(cluster: Bed, tmp_path: Path) -> Iterator[Stack]:
    """Makes stacks in namespaces of their own; after the test nodes are as they joined."""
    made: list[BedProject] = []

    def make(**settings: Any) -> BedProject:
        name = f"faults-{secrets.token_hex(3)}"
        made.append(BedProject(tmp_path / name, cluster, name, **settings))
        return made[-1]

    try:
        yield make
    finally:
        for project in made:
            project.clean()
        forget_devices(cluster)


def installed(*addons: str) -> dict[str, Any]:
    """The settings with which a stack installs these add-ons from local charts."""
    charts = str(chart_folder())
    modes = {f"addon{addon}": "install" for addon in addons}
    return {**modes, **{f"addon{addon}Repository": charts for addon in addons}}


@contextlib.contextmanager
def plugins(bed: Bed, selector: Mapping[str, str] | None = None) -> Iterator[None]:
    """Both device plugins as somebody else installed them, NVIDIA's on nodes with these labels."""
    for name, image in PLUGINS.items():
        labels = {"app": name}
        spec = {
            "containers": [{"name": "plugin", "image": image}],
            "tolerations": [{"key": GPU, "operator": "Exists"}],
            "nodeSelector": dict(selector or {}) if name.startswith("nvidia") else {},
            "terminationGracePeriodSeconds": 1,
        }
        bed.api.create(
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": name, "namespace": "kube-system"},
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                },
            }
        )
    try:
        yield
    finally:
        for name in PLUGINS:
            bed.api.delete(f"/apis/apps/v1/namespaces/kube-system/daemonsets/{name}")


def forget_devices(bed: Bed) -> None:
    """Nodes as they joined; a kubelet would offer none of a device whose plugin went."""
    gone = {"allocatable": {GPU: None, EFA: None}, "capacity": {GPU: None, EFA: None}}
    for node in NODES:
        bed.api.merge(f"/api/v1/nodes/{node}/status", {"status": gone})


def each_node(bed: Bed, **patch: Any) -> None:
    for node in NODES:
        bed.api.merge(f"/api/v1/nodes/{node}", patch)


def refused(project: BedProject, *, seconds: float) -> str:
    """What a failing `up` says, which must not take longer; on a machine that is busy, longer by as much."""
    allowed = seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    began = time.monotonic()
    done = project.up()
    assert done.returncode != 0
    assert time.monotonic() - began < allowed
    assert "Traceback" not in done.stdout
    return done.stdout


def test_a_plugin_whose_label_no_node_has_is_named_with_the_label(cluster: Bed, stack: Stack) -> None:
    label = "nvidia.com/gpu.present"
    each_node(cluster, metadata={"labels": {label: None}})
    try:
        with plugins(cluster, {label: "true"}):
            output = refused(stack(), seconds=60)
    finally:
        each_node(cluster, metadata={"labels": {label: "true"}})
    assert f"node gpu-1 offers no {GPU}: DaemonSet kube-system/nvidia-device-plugin (0/0 ready) makes no pod" in output
    assert f"the node lacks the label {label}=true" in output


def test_a_plugin_that_never_registers_its_device_is_named(cluster: Bed, stack: Stack) -> None:
    project = stack(**installed("NvidiaPlugin", "EfaPlugin"))
    with cluster.images.with_rule(
        match="nvidia/k8s-device-plugin", kind="device-plugin", resource=GPU, registers=False
    ):
        output = refused(project, seconds=120)
    assert f"node gpu-1 offers no {GPU}: pod kube-system/{project.namespace}-nvidia-device-plugin" in output
    assert "runs and has registered none" in output


def test_a_taint_that_the_workers_do_not_tolerate_is_named(cluster: Bed, stack: Stack) -> None:
    taints = cluster.api.get("/api/v1/nodes/gpu-1")["spec"]["taints"]
    with plugins(cluster):
        each_node(cluster, spec={"taints": [*taints, {"key": "team", "value": "other", "effect": "NoSchedule"}]})
        try:
            output = refused(stack(), seconds=60)
        finally:
            each_node(cluster, spec={"taints": taints})
    assert "node gpu-1 has the taint team=other:NoSchedule, which the Ray workers do not tolerate" in output


def test_without_a_default_storage_class_the_claim_is_named(cluster: Bed, stack: Stack) -> None:
    path = f"/apis/storage.k8s.io/v1/storageclasses/{STORAGE_CLASS}"
    default = "storageclass.kubernetes.io/is-default-class"
    cluster.api.merge(path, {"metadata": {"annotations": {default: "false"}}})
    try:
        output = refused(stack(**WITHOUT_GPUS), seconds=90)
    finally:
        cluster.api.merge(path, {"metadata": {"annotations": {default: "true"}}})
    assert "has no node" in output
    assert "volume claim ray-storage: no persistent volumes available for this claim and no storage class is set" in (
        output
    )


def test_a_claim_of_a_class_that_does_not_exist_is_named(stack: Stack) -> None:
    output = refused(stack(storageClass="nowhere", **WITHOUT_GPUS), seconds=90)
    assert 'volume claim ray-storage: storageclass.storage.k8s.io "nowhere" not found' in output


@pytest.mark.parametrize("everything", [True, False], ids=["with all it started", "alone"])
def test_a_release_that_a_killed_up_left_is_taken_up_by_the_next(bare: Bed, tmp_path: Path, everything: bool) -> None:
    name = f"killed-{secrets.token_hex(3)}"
    project = BedProject(tmp_path / name, bare, name, **installed("NvidiaPlugin", "EfaPlugin", "KubeRay"))
    operator = f"{name}-{KUBERAY_CHART.name}"
    process = None
    family: list[psutil.Process] = []
    try:
        with bare.images.with_rule(match="kuberay/operator", kind="missing"):
            process = project.start_up()
            wait_for(
                lambda: releases(bare).get(operator) == "pending-install",
                seconds=180,
                what="the operator is being installed",
            )
            family = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.wait()
            if everything:
                end_all(family)
        if not everything:
            # The provider does not notice that its engine is gone, and ends what it has begun.
            wait_for(lambda: releases(bare)[operator] == "deployed", seconds=180, what="the provider installs it")
        done = project.efactl("up")
        assert done.returncode == 0, done.stdout + done.stderr
        charts = (NVIDIA_CHART, EFA_CHART, KUBERAY_CHART)
        assert releases(bare) == {f"{name}-{chart.name}": "deployed" for chart in charts}
        assert project.outputs()["run"]["verdict"] == "proven"
        project.must("destroy", "--yes", "--skip-preview")
        assert releases(bare) == {}
    finally:
        if process is not None:
            end_group(process)
        end_all(family)
        project.clean()
        forget_devices(bare)
