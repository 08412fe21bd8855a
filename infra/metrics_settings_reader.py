"""Reads the settings of the metrics add-on."""

import re

from infra.config_reader import ConfigReader
from infra.metrics_settings import GRAFANA_PORT, MODES, PROMETHEUS_NAME, PROMETHEUS_PORT, MetricsSettings

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_REPOSITORY = re.compile(r"(https?|oci)://\S+|[^\s:]+")
_HOST = re.compile(r"https?://[A-Za-z0-9.-]+(:\d+)?(/\S*)?")
_LONGEST_NAMESPACE = 63
_HOSTS = ("addonPrometheusHost", "addonGrafanaHost")


def read_metrics(read: ConfigReader, *, stack_namespace: str) -> MetricsSettings | None:
    """None where there is none. Notes every value that cannot be used in `read.problems`."""
    mode = read.one_of("addonMetrics", MODES)
    repository = "a chart repository's URL, an oci:// address or a folder"
    prometheus = read.matching("addonPrometheusRepository", _REPOSITORY, repository, required=True)
    dcgm = read.matching("addonDcgmRepository", _REPOSITORY, repository, required=True)
    namespace = read.matching("addonMetricsNamespace", _NAME, "a namespace (small letters, digits, -)")
    labels = _labels(read, "addonMetricsLabels")
    hosts = {key: read.matching(key, _HOST, "a URL like http://prometheus.monitoring.svc:9090") for key in _HOSTS}
    if mode not in ("install", "existing"):
        return None
    if mode == "existing":
        if not namespace:
            read.problem("addonMetricsNamespace", "", "must name the namespace of the Prometheus that is there")
    else:
        namespace = namespace or f"{stack_namespace}-metrics"
        if len(namespace) > _LONGEST_NAMESPACE:
            read.problem("addonMetricsNamespace", "", f"must be set: {namespace} is too long for a namespace")
        if namespace == stack_namespace:
            read.problem("addonMetricsNamespace", namespace, "is the Ray cluster's own, which lets nobody else in")
        for key, value in hosts.items():
            if value:
                read.problem(key, value, "is not used with addonMetrics install, which brings its own")
        hosts = {
            "addonPrometheusHost": f"http://{PROMETHEUS_NAME}-prometheus.{namespace}.svc:{PROMETHEUS_PORT}",
            "addonGrafanaHost": f"http://{PROMETHEUS_NAME}-grafana.{namespace}.svc:{GRAFANA_PORT}",
        }
    return MetricsSettings(
        install=mode == "install",
        namespace=namespace,
        labels=labels,
        prometheus_repository=prometheus,
        dcgm_repository=dcgm,
        prometheus_host=hosts["addonPrometheusHost"],
        grafana_host=hosts["addonGrafanaHost"],
    )


def _labels(read: ConfigReader, key: str) -> dict[str, str]:
    labels = read.json_value(key, dict)
    for name, value in labels.items():
        if not _LABEL.fullmatch(name) or not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            read.problem(key, f"{name}: {value}", "is not a label and its text")
    return {name: str(value) for name, value in labels.items()}
