"""A stack that brings its metrics along, on a real control plane: the monitor finds ports that Ray really serves."""

import urllib.request
from collections.abc import Iterator

import pytest
from kubernetes import client

from infra.versions import DCGM_CHART, PROMETHEUS_CHART
from tests.support.bed_project import BedProject
from tests.support.helm import releases
from tests.support.inventory import inventory
from tests.support.project import wait_for
from tools.bed import Bed
from tools.bed.charts import chart_folder
from workload.kubernetes_access import KubernetesAccess
from workload.port_forward import PortForward

NAMESPACE = "measured"
METRICS = f"{NAMESPACE}-metrics"


@pytest.fixture(scope="module")
def before(bed: Bed) -> set[str]:
    return inventory(bed)


@pytest.fixture(scope="module")
def project(bed: Bed, before: set[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[BedProject]:
    charts = str(chart_folder())
    project = BedProject(
        tmp_path_factory.mktemp("metrics") / "project",
        bed,
        NAMESPACE,
        addonMetrics="install",
        addonPrometheusRepository=charts,
        addonDcgmRepository=charts,
    )
    try:
        yield project
    finally:
        project.clean()


@pytest.fixture(scope="module")
def first_up(project: BedProject) -> str:
    return project.must("up", "--yes", "--skip-preview")


def served(url: str) -> str:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(url, timeout=20) as answer:
        return str(answer.read().decode())


def test_an_up_brings_both_charts_and_the_run_is_proven(bed: Bed, project: BedProject, first_up: str) -> None:
    own = {f"{NAMESPACE}-{chart.name}" for chart in (PROMETHEUS_CHART, DCGM_CHART)}
    assert {name: status for name, status in releases(bed).items() if name in own} == dict.fromkeys(own, "deployed")
    assert project.outputs()["run"]["verdict"] == "proven"


def test_the_monitors_port_is_one_of_every_ray_pod_and_ray_serves_metrics_there(
    project: BedProject, first_up: str
) -> None:
    monitors = client.CustomObjectsApi(project.api_client)
    listed = monitors.list_namespaced_custom_object("monitoring.coreos.com", "v1", METRICS, "podmonitors")
    [monitor] = listed["items"]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert monitor["spec"]["namespaceSelector"]["matchNames"] == [NAMESPACE]
    pods = project.pods()
    assert len(pods) == 3
    for pod in pods.values():
        ports = {port.name: port.container_port for one in pod.spec.containers for port in one.ports or ()}
        assert ports[endpoint["port"]] == 8080
    # The bed's pods are reached through its API server alone; workers serve as the head does.
    access = KubernetesAccess(kubeconfig=str(project.bed.kubeconfig))
    with PortForward(access, namespace=NAMESPACE, cluster="ray", port=8080) as forward:
        # Ray takes its measures every few seconds, the first of them whenever its agent gets to it.
        url = f"{forward.url}/metrics"
        wait_for(lambda: "ray_node_cpu_utilization" in served(url), seconds=60, what="Ray's measures of its node")


def test_the_ray_pods_let_prometheus_in_and_nothing_else(project: BedProject, first_up: str) -> None:
    policies = client.NetworkingV1Api(project.api_client).list_namespaced_network_policy(NAMESPACE).items
    [policy] = policies
    own, scrape = policy.spec.ingress
    assert own.ports is None and own._from[0].pod_selector.match_labels == {"ray.io/cluster": "ray"}
    assert [port.port for port in scrape.ports] == [8080]
    assert scrape._from[0].namespace_selector.match_labels == {"kubernetes.io/metadata.name": METRICS}


def test_an_unchanged_up_changes_nothing_and_a_destroy_leaves_the_kinds_alone(
    bed: Bed, project: BedProject, first_up: str, before: set[str]
) -> None:
    assert project.changes() == {}
    project.must("destroy", "--yes", "--skip-preview")
    left = {item for item in inventory(bed) - before if not item.startswith("customresourcedefinitions ")}
    assert left == set()
