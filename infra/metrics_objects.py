"""PURE: what scrapes the Ray cluster's pods, who may reach what, and the values of the metrics add-on's charts."""

import json
from collections.abc import Mapping
from typing import Any

from infra.metrics_dashboards import dashboards
from infra.metrics_settings import GRAFANA_PORT, PROMETHEUS_NAME, PROMETHEUS_PORT, MetricsSettings
from infra.ray_cluster_spec import CLUSTER_NAME

# KubeRay names it so in every pod that does not name a port of its own for it.
RAY_PORT_NAME = "metrics"
GRAFANA_SECRET = "metrics-grafana-admin"  # noqa: S105 - its name
_SCRAPE_SECONDS = 15
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
# Grafana listens there; its Service has another port.
_GRAFANA_POD_PORT = 3000


def pod_monitor(metrics: MetricsSettings, *, ray_namespace: str) -> dict[str, Any]:
    """Ray's own metrics and the job's, from the head and every worker."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        # Beside Prometheus: the Ray cluster's namespace need not be there yet, and goes without it.
        "metadata": {
            "name": f"{ray_namespace}-ray",
            "namespace": metrics.namespace,
            # An API server keeps no empty labels: with them every preview would show a change.
            **({"labels": dict(metrics.labels)} if metrics.labels else {}),
        },
        "spec": {
            "namespaceSelector": {"matchNames": [ray_namespace]},
            "selector": {"matchLabels": {"ray.io/cluster": CLUSTER_NAME}},
            "podMetricsEndpoints": [
                {
                    "port": RAY_PORT_NAME,
                    "interval": f"{_SCRAPE_SECONDS}s",
                    # By these Ray's own dashboards tell clusters and nodes apart.
                    "relabelings": [
                        {"sourceLabels": [f"__meta_kubernetes_pod_label_{label}"], "targetLabel": label}
                        for label in ("ray_io_cluster", "ray_io_node_type")
                    ],
                }
            ],
        },
    }


def scrape_rule(namespace: str, port: int) -> dict[str, Any]:
    """Of the Ray cluster's NetworkPolicy: Prometheus's pods in that namespace, and that one port."""
    return {
        "from": [
            {
                "namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: namespace}},
                "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
            }
        ],
        "ports": [{"protocol": "TCP", "port": port}],
    }


def network_policy(metrics: MetricsSettings, *, ray_namespace: str) -> dict[str, Any]:
    """Around the stack's own Prometheus and Grafana: each other, and the Ray head, whose dashboard shows graphs."""
    head = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: ray_namespace}},
        "podSelector": {"matchLabels": {"ray.io/cluster": CLUSTER_NAME, "ray.io/node-type": "head"}},
    }
    ports = [{"protocol": "TCP", "port": port} for port in (PROMETHEUS_PORT, _GRAFANA_POD_PORT)]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "metrics-only-itself", "namespace": metrics.namespace},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {}}]}, {"from": [head], "ports": ports}],
        },
    }


def dashboard_maps(metrics: MetricsSettings, *, ray_namespace: str) -> dict[str, dict[str, Any]]:
    """ConfigMaps by dashboard, with the label by which Grafana's side-car finds them."""
    return {
        name: {
            "metadata": {
                "name": f"{ray_namespace}-dashboard-{name}",
                "namespace": metrics.namespace,
                "labels": {"grafana_dashboard": "1"},
            },
            "data": {f"{ray_namespace}-{name}.json": json.dumps(dashboard, sort_keys=True)},
        }
        for name, dashboard in dashboards(ray_namespace).items()
    }


def prometheus_values(metrics: MetricsSettings, *, mirror: str, off_gpu_nodes: Mapping[str, Any]) -> dict[str, Any]:
    """Prometheus, its operator and Grafana for this stack alone: nothing of the chart that scrapes the rest of a
    cluster, nothing that alerts, and nothing on a GPU node."""
    unused = ("kubeApiServer", "kubelet", "kubeControllerManager", "coreDns", "kubeEtcd", "kubeScheduler", "kubeProxy")
    mine = {"matchLabels": {_NAMESPACE_LABEL: metrics.namespace}}
    monitors = {
        f"{kind}{part}": value
        for kind in ("podMonitor", "serviceMonitor")
        for part, value in (("SelectorNilUsesHelmValues", False), ("NamespaceSelector", mine))
    }
    return {
        "fullnameOverride": PROMETHEUS_NAME,
        **({"global": {"imageRegistry": mirror}} if mirror else {}),
        **{name: {"enabled": False} for name in (*unused, "alertmanager", "kubeStateMetrics", "nodeExporter")},
        "defaultRules": {"create": False},
        "prometheusOperator": {
            # Its certificate would be made by a job with an image of its own.
            "admissionWebhooks": {"enabled": False},
            "tls": {"enabled": False},
            "kubeletService": {"enabled": False},
            "kubeletEndpointsEnabled": False,
            "serviceMonitor": {"selfMonitor": False},
            "affinity": dict(off_gpu_nodes),
            "resources": _resources("50m", "128Mi", "256Mi"),
        },
        "prometheus": {
            "serviceMonitor": {"selfMonitor": False},
            "prometheusSpec": {
                **monitors,
                "retention": "15d",
                "affinity": dict(off_gpu_nodes),
                "resources": _resources("200m", "512Mi", "2Gi"),
            },
        },
        "grafana": {
            "fullnameOverride": f"{PROMETHEUS_NAME}-grafana",
            # The chart's own password is the same everywhere.
            "admin": {"existingSecret": GRAFANA_SECRET, "userKey": "user", "passwordKey": "password"},
            "defaultDashboardsEnabled": False,
            "service": {"type": "ClusterIP", "port": GRAFANA_PORT},
            "serviceMonitor": {"enabled": False},
            "rbac": {"namespaced": True},
            "sidecar": {
                "dashboards": {"searchNamespace": metrics.namespace},
                "datasources": {"searchNamespace": metrics.namespace, "alertmanager": {"enabled": False}},
            },
            # In Ray's dashboard, from a browser to which both are forwarded.
            "grafana.ini": {
                "security": {"allow_embedding": True},
                "analytics": {"reporting_enabled": False, "check_for_updates": False},
            },
            "affinity": dict(off_gpu_nodes),
            "resources": _resources("50m", "192Mi", "512Mi"),
        },
    }


def dcgm_values(
    metrics: MetricsSettings, *, image: Mapping[str, str], affinity: Any, toleration: Any
) -> dict[str, Any]:
    """On the nodes that the NVIDIA device plugin is on."""
    return {
        "image": dict(image),
        "affinity": dict(affinity),
        "tolerations": [dict(toleration)],
        "serviceMonitor": {
            "enabled": True,
            "interval": f"{_SCRAPE_SECONDS}s",
            "additionalLabels": dict(metrics.labels),
            # Which node a GPU is in, by the name that everything else calls it.
            "relabelings": [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}],
        },
    }


def head_env(metrics: MetricsSettings | None, *, in_browser: str) -> dict[str, str]:
    """By which Ray's dashboard shows graphs (ray/dashboard/modules/metrics/metrics_head.py)."""
    if metrics is None:
        return {}
    env = {"RAY_PROMETHEUS_HOST": metrics.prometheus_host, "RAY_GRAFANA_HOST": metrics.grafana_host}
    if metrics.grafana_host:
        env["RAY_GRAFANA_IFRAME_HOST"] = in_browser if metrics.install else metrics.grafana_host
    return {name: value for name, value in env.items() if value}


def _resources(cpu: str, memory: str, limit: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": limit}}
