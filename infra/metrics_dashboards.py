"""PURE: Grafana's dashboards of the job, the GPUs and the Ray cluster, as their JSON model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Ray puts ray_ before the name of every metric; these are training/live_metrics.py's.
JOB = "ray_train_efa_"
# 36 is the schema of Grafana 8.5 and newer, which raise it by themselves.
_SCHEMA = 36
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2


@dataclass(frozen=True, kw_only=True)
class Panel:
    """`unit` is one of Grafana's ids; `legend` a text with {{label}}."""

    title: str
    query: str
    legend: str
    unit: str = "short"


_RUN = '{run=~"$run"}'
_JOB_PANELS = (
    Panel(title="Loss", query=f"{JOB}loss{_RUN}", legend="{{run}}"),
    Panel(title="Tokens a second, all ranks", query=f"{JOB}tokens_per_second{_RUN}", legend="{{run}}"),
    Panel(title="MFU", query=f"{JOB}mfu{_RUN}", legend="{{run}}", unit="percentunit"),
    Panel(title="Step", query=f"{JOB}step{_RUN}", legend="{{run}}"),
    Panel(title="Seconds a step", query=f"{JOB}step_seconds{_RUN}", legend="{{run}}", unit="s"),
    Panel(title="Gradient norm", query=f"{JOB}gradient_norm{_RUN}", legend="{{run}}"),
    Panel(title="Learning rate", query=f"{JOB}learning_rate{_RUN}", legend="{{run}}", unit="sci"),
    Panel(
        title="Peak memory of rank 0's device",
        query=f"{JOB}peak_memory_bytes{_RUN}",
        legend="{{run}}",
        unit="bytes",
    ),
)
_GPU = "{{node}} GPU {{gpu}}"
_GPU_PANELS = (
    Panel(title="Busy", query="DCGM_FI_DEV_GPU_UTIL", legend=_GPU, unit="percent"),
    Panel(title="Tensor cores active", query="DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", legend=_GPU, unit="percentunit"),
    Panel(title="Memory used", query="DCGM_FI_DEV_FB_USED", legend=_GPU, unit="decmbytes"),
    Panel(title="Memory bandwidth used", query="DCGM_FI_PROF_DRAM_ACTIVE", legend=_GPU, unit="percentunit"),
    Panel(title="Power", query="DCGM_FI_DEV_POWER_USAGE", legend=_GPU, unit="watt"),
    Panel(title="Temperature", query="DCGM_FI_DEV_GPU_TEMP", legend=_GPU, unit="celsius"),
    Panel(title="PCIe, received", query="DCGM_FI_PROF_PCIE_RX_BYTES", legend=_GPU, unit="Bps"),
    Panel(title="Xid of the last error", query="DCGM_FI_DEV_XID_ERRORS", legend=_GPU),
)


def _ray_panels(namespace: str) -> tuple[Panel, ...]:
    here = f'{{namespace="{namespace}"}}'
    node = "{{ray_io_node_type}} {{pod}}"
    return (
        Panel(title="CPU busy", query=f"ray_node_cpu_utilization{here}", legend=node, unit="percent"),
        Panel(title="Memory used", query=f"ray_node_mem_used{here}", legend=node, unit="bytes"),
        Panel(title="Network, sent", query=f"ray_node_network_send_speed{here}", legend=node, unit="Bps"),
        Panel(title="Network, received", query=f"ray_node_network_receive_speed{here}", legend=node, unit="Bps"),
        Panel(title="Object store used", query=f"ray_object_store_memory{here}", legend=node, unit="bytes"),
        Panel(title="Disk used", query=f"ray_node_disk_usage{here}", legend=node, unit="bytes"),
        Panel(title="Scraped", query=f'up{{namespace="{namespace}"}}', legend=node),
    )


def dashboards(namespace: str) -> dict[str, dict[str, Any]]:
    """By name. `namespace` is the Ray cluster's, by which two stacks' dashboards differ."""
    job = _dashboard(namespace, "job", "training runs", _JOB_PANELS)
    job["templating"]["list"].append(_variable("run", f'label_values({JOB}step{{namespace="{namespace}"}}, run)'))
    return {
        "job": job,
        "gpus": _dashboard(namespace, "gpus", "GPUs", _GPU_PANELS),
        "ray": _dashboard(namespace, "ray", "Ray cluster", _ray_panels(namespace)),
    }


def _dashboard(namespace: str, name: str, title: str, panels: Sequence[Panel]) -> dict[str, Any]:
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    return {
        # Grafana takes 40 characters.
        "uid": f"{namespace[:34]}-{name}",
        "title": f"{namespace}: {title}",
        "tags": ["ray-train-efa"],
        "schemaVersion": _SCHEMA,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source]},
        "panels": [_panel(panel, number) for number, panel in enumerate(panels)],
    }


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": panel.query, "legendFormat": panel.legend}],
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "sort": 2,
    }
