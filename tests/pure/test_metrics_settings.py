"""The metrics add-on's settings and dashboards: what is taken, what is refused and why, and what Grafana is given."""

from typing import Any

import pytest

from infra import versions
from infra.metrics_dashboards import dashboards
from infra.ray_cluster_manifest import spec_digest
from infra.settings import SettingsError
from tests.pure.test_eks_settings import load
from tests.pure.test_ray_cluster_spec import container, head_pod, spec


def metrics(**changes: Any) -> Any:
    return load(**changes).kubernetes.metrics


def test_it_is_off_by_itself() -> None:
    assert metrics() is None


def test_installed_it_has_a_namespace_of_its_own_and_hosts_in_it() -> None:
    found = metrics(addonMetrics="install")
    assert found.install and found.namespace == "ray-train-metrics"
    assert found.prometheus_host.startswith("http://metrics-prometheus.ray-train-metrics.svc:")
    assert metrics(addonMetrics="install", addonMetricsNamespace="graphs").namespace == "graphs"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"addonMetrics": "auto"}, "addonMetrics: 'auto' is none of none, install, existing"),
        ({"addonMetrics": "existing"}, "addonMetricsNamespace: must name the namespace of the Prometheus"),
        ({"addonMetrics": "install", "addonMetricsNamespace": "ray-train"}, "is the Ray cluster's own"),
        ({"addonMetrics": "install", "addonGrafanaHost": "http://g"}, "addonGrafanaHost: 'http://g' is not used with"),
        ({"addonMetrics": "install", "kubeNamespace": "n" * 60}, "too long for a namespace"),
        ({"addonGrafanaHost": "grafana"}, "addonGrafanaHost: 'grafana' is not a URL"),
        ({"addonMetricsLabels": {"a b": "c"}}, "addonMetricsLabels: 'a b: c' is not a label and its text"),
        ({"addonPrometheusRepository": ""}, "addonPrometheusRepository"),
    ],
)
def test_what_cannot_be_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        metrics(**changes)
    assert said in str(refused.value)


@pytest.mark.parametrize("chart", [versions.PROMETHEUS_CHART, versions.DCGM_CHART], ids=lambda chart: chart.name)
def test_its_charts_are_pinned(chart: versions.Chart) -> None:
    assert all(part.isdecimal() for part in chart.version.split("."))
    assert chart.repository.startswith("https://") and chart.tag


@pytest.mark.parametrize("namespace", ["ray-train", "n" * 63])
def test_dashboards_are_grafanas_own_model_and_two_stacks_have_their_own(namespace: str) -> None:
    made = dashboards(namespace)
    assert set(made) == {"job", "gpus", "ray"}
    for dashboard in made.values():
        assert len(dashboard["uid"]) <= 40
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
        assert len(set(places)) == len(places)
        assert len({panel["id"] for panel in dashboard["panels"]}) == len(places)
        assert all(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    assert made["job"]["uid"] != dashboards("other")["job"]["uid"]
    assert made["job"]["templating"]["list"][1]["name"] == "run"


def test_graphs_are_no_reason_to_train_again() -> None:
    with_metrics = spec(metrics=metrics(addonMetrics="install"))
    assert container(head_pod(with_metrics))["env"] != container(head_pod(spec()))["env"]
    assert spec_digest(with_metrics) == spec_digest(spec())


def test_a_users_own_variable_is_not_set_twice() -> None:
    mine = spec(metrics=metrics(addonMetrics="install"), env={"RAY_GRAFANA_HOST": "http://mine"})
    env = [one for one in container(head_pod(mine))["env"] if one["name"] == "RAY_GRAFANA_HOST"]
    assert env == [{"name": "RAY_GRAFANA_HOST", "value": "http://mine"}]
