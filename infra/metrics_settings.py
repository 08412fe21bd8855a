"""PURE: the settings of the metrics add-on: none, brought by the stack, or into a Prometheus that the cluster has."""

from collections.abc import Mapping
from dataclasses import dataclass

MODES = ("none", "install", "existing")
# Of the stack's own Prometheus and Grafana; its namespace is what tells them from those of another stack.
PROMETHEUS_NAME = "metrics"
PROMETHEUS_PORT, GRAFANA_PORT = 9090, 80
# Where `kubectl port-forward` puts Grafana on the user's machine: a browser loads the dashboard's panels from there.
GRAFANA_IN_BROWSER = "http://127.0.0.1:3000"


@dataclass(frozen=True, kw_only=True)
class MetricsSettings:
    """`install`: Prometheus, Grafana and DCGM's exporter are brought; otherwise monitors and dashboards alone.

    `namespace` is Prometheus's; `labels` are what it picks monitors by. The hosts are URLs as the Ray head reaches
    them, empty where there is none.
    """

    install: bool
    namespace: str
    labels: Mapping[str, str]
    prometheus_repository: str
    dcgm_repository: str
    prometheus_host: str
    grafana_host: str
