"""The KubeRay operator from its own manifests, for beds that do not install its Helm chart."""

import json
from pathlib import Path
from typing import Any

from tools.bed.programs import Programs, kuberay_version

NAMESPACE = "kuberay-operator"
NAME = "kuberay-operator"
# The chart's labels, so that what finds an operator by them finds this one as well.
LABELS = {
    "app.kubernetes.io/name": NAME,
    "app.kubernetes.io/instance": NAME,
    "app.kubernetes.io/component": NAME,
}


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def custom_resource_definitions(programs: Programs) -> list[dict[str, Any]]:
    return [_read(path) for path in sorted((programs.kubernetes / "kuberay" / "crds").glob("*.json"))]


def objects(programs: Programs) -> list[dict[str, Any]]:
    """Namespace, service account, RBAC and Deployment, in the order in which they can be created."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    found = [_read(path) for path in sorted((programs.kubernetes / "kuberay" / "operator").glob("*.json"))]
    for item in found:
        item["metadata"].setdefault("labels", {}).update(LABELS)
        if not item["kind"].startswith("Cluster"):
            item["metadata"]["namespace"] = NAMESPACE
        for subject in item.get("subjects", ()):
            subject["namespace"] = NAMESPACE
        if item["kind"] == "Deployment":
            _adapt(item["spec"])
    return [namespace, *sorted(found, key=lambda item: item["kind"] == "Deployment")]


def _adapt(spec: dict[str, Any]) -> None:
    spec["selector"] = {"matchLabels": LABELS}
    spec["template"]["metadata"]["labels"] = LABELS
    (container,) = spec["template"]["spec"]["containers"]
    container["image"] = f"quay.io/kuberay/operator:v{kuberay_version()}"
    for probe in ("livenessProbe", "readinessProbe"):
        # Ten seconds before the first look would be most of the bed's start.
        container[probe].update(initialDelaySeconds=0, periodSeconds=1, failureThreshold=30)
