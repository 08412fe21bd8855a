"""The metrics add-on: nothing of it without its setting, and with it a scrape that is let in and nothing else."""

import json
from typing import Any

import pytest

from infra import versions
from tests.mocks.recording import Recording
from tests.mocks.test_eks_ray import declared, empty_config
from tests.mocks.test_policy import as_seen
from tests.pure.test_policy_rules import violations

__all__ = ["empty_config"]

RELEASE = "kubernetes:helm.sh/v3:Release"
POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
MONITOR = "kubernetes:monitoring.coreos.com/v1:PodMonitor"
RAY = "kubernetes:ray.io/v1:RayCluster"
MAP = "kubernetes:core/v1:ConfigMap"
SECRET = "kubernetes:core/v1:Secret"
EXISTING: dict[str, Any] = {
    "addonMetrics": "existing",
    "addonMetricsNamespace": "monitoring",
    "addonMetricsLabels": {"release": "ours"},
    "addonGrafanaHost": "https://grafana.example",
    "addonPrometheusHost": "http://prometheus.monitoring.svc:9090",
}


@pytest.fixture(scope="module")
def without() -> Recording:
    # The first program of a process has another stack's name than those that follow.
    declared()
    return declared()


@pytest.fixture(scope="module")
def installed() -> Recording:
    return declared(addonMetrics="install")


def head_env(recording: Recording) -> dict[str, Any]:
    pod = recording.one(RAY).inputs["spec"]["headGroupSpec"]["template"]["spec"]
    return {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}


def plain(recording: Recording) -> dict[tuple[str, str], Any]:
    return {
        (one.type, one.name): json.loads(json.dumps(one.inputs, default=lambda value: type(value).__name__))
        for one in recording
    }


def named(recording: Recording, token: str, name: str) -> Any:
    [found] = [one for one in recording.of_type(token) if one.name == name]
    return found


def test_without_the_setting_there_is_nothing_of_it(without: Recording) -> None:
    assert [one.name for one in without if "metrics" in one.name or "metrics" in one.type.lower()] == []
    [rule] = without.one(POLICY).inputs["spec"]["ingress"]
    assert rule == {"from": [{"podSelector": {"matchLabels": {"ray.io/cluster": "ray"}}}]}
    assert not [name for name in head_env(without) if "GRAFANA" in name or "PROMETHEUS" in name]


def test_with_it_all_else_stays_but_the_policy_and_the_heads_variables(
    without: Recording, installed: Recording
) -> None:
    before, after = plain(without), plain(installed)
    assert set(before) <= set(after)
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {(RAY, "ray-kubernetes-cluster-raycluster"), (POLICY, "ray-kubernetes-cluster-network-policy")}
    workers = [one.one(RAY).inputs["spec"]["workerGroupSpecs"] for one in (without, installed)]
    assert workers[0] == workers[1]


def test_charts_are_pinned_and_wait_for_nobody_that_trains(installed: Recording) -> None:
    prometheus = named(installed, RELEASE, "ray-kubernetes-metrics-kube-prometheus-stack")
    dcgm = named(installed, RELEASE, "ray-kubernetes-metrics-dcgm-exporter")
    assert prometheus.inputs["version"] == versions.PROMETHEUS_CHART.version
    assert dcgm.inputs["version"] == versions.DCGM_CHART.version
    assert prometheus.name in dcgm.dependencies, "its chart has a kind that the other brings"
    waiting = {name for one in installed if "metrics" not in one.name for name in one.dependencies}
    assert not [name for name in waiting if "metrics" in name], "no job waits for graphs, or fails for want of them"


def test_every_object_of_it_is_the_components_and_in_its_namespace(installed: Recording) -> None:
    own = [one for one in installed if one.parent == "ray-kubernetes-metrics"]
    assert {one.type for one in own} >= {RELEASE, POLICY, MONITOR, MAP, SECRET}
    namespaces = {one.inputs["metadata"].get("namespace") for one in own if "metadata" in one.inputs}
    assert namespaces <= {"ray-train-metrics", None}
    assert named(installed, "kubernetes:core/v1:Namespace", "ray-kubernetes-metrics-namespace")


def test_prometheus_reaches_the_metrics_port_and_nobody_else_reaches_anything(installed: Recording) -> None:
    policy = named(installed, POLICY, "ray-kubernetes-cluster-network-policy").inputs["spec"]
    own, scrape = policy["ingress"]
    assert own == {"from": [{"podSelector": {"matchLabels": {"ray.io/cluster": "ray"}}}]}
    assert scrape["ports"] == [{"protocol": "TCP", "port": 8080}]
    [peer] = scrape["from"]
    assert peer["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "ray-train-metrics"}}
    assert peer["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}
    around = named(installed, POLICY, "ray-kubernetes-metrics-network-policy").inputs["spec"]
    assert around["podSelector"] == {} and around["policyTypes"] == ["Ingress"]
    assert all(one["from"] for one in around["ingress"]), "an empty list would be everybody"


def test_the_monitor_takes_head_and_workers_of_this_cluster(installed: Recording) -> None:
    monitor = installed.one(MONITOR).inputs
    assert monitor["metadata"]["namespace"] == "ray-train-metrics"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["ray-train"]}
    assert monitor["spec"]["selector"] == {"matchLabels": {"ray.io/cluster": "ray"}}
    assert [one["port"] for one in monitor["spec"]["podMetricsEndpoints"]] == ["metrics"]


def test_grafanas_password_is_made_here_and_a_secret(installed: Recording) -> None:
    values = named(installed, RELEASE, "ray-kubernetes-metrics-kube-prometheus-stack").inputs["values"]
    secret = named(installed, SECRET, "ray-kubernetes-metrics-grafana-admin")
    assert values["grafana"]["admin"]["existingSecret"] == secret.inputs["metadata"]["name"]
    assert "the-token" not in json.dumps(values, default=str)


def test_the_heads_dashboard_finds_its_graphs(installed: Recording) -> None:
    env = head_env(installed)
    assert env["RAY_PROMETHEUS_HOST"] == "http://metrics-prometheus.ray-train-metrics.svc:9090"
    assert env["RAY_GRAFANA_HOST"] == "http://metrics-grafana.ray-train-metrics.svc:80"
    assert env["RAY_GRAFANA_IFRAME_HOST"] == "http://127.0.0.1:3000"


def test_into_a_prometheus_that_is_there_go_monitors_and_dashboards_alone() -> None:
    recording = declared(**EXISTING)
    own = [one for one in recording if one.parent == "ray-kubernetes-metrics"]
    assert {one.type for one in own} == {MONITOR, MAP}
    assert {one.inputs["metadata"]["namespace"] for one in own} == {"monitoring"}
    assert recording.one(MONITOR).inputs["metadata"]["labels"] == {"release": "ours"}
    assert head_env(recording)["RAY_GRAFANA_IFRAME_HOST"] == "https://grafana.example"


@pytest.mark.parametrize("changes", [{"addonMetrics": "install"}, EXISTING], ids=["install", "existing"])
def test_it_passes_the_policy_pack(changes: dict[str, Any]) -> None:
    assert violations(as_seen(declared(**changes))) == []


def test_a_mirror_has_its_images_too() -> None:
    mirror = "123456789012.dkr.ecr.us-west-2.amazonaws.com"
    recording = declared(addonMetrics="install", addonImageMirror=mirror)
    prometheus = named(recording, RELEASE, "ray-kubernetes-metrics-kube-prometheus-stack").inputs["values"]
    dcgm = named(recording, RELEASE, "ray-kubernetes-metrics-dcgm-exporter").inputs["values"]
    assert prometheus["global"]["imageRegistry"] == mirror
    assert dcgm["image"]["repository"] == f"{mirror}/nvidia/k8s/dcgm-exporter"
