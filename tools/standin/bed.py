"""The Kubernetes test bed behind a stand-in account, where there is one: bed.json in its folder."""

import json
from pathlib import Path
from typing import Any

from tools.standin.account import Entry

FILE = "bed.json"


def read(folder: Path) -> dict[str, Any]:
    """{kubeconfig, server, ca, token}, or nothing."""
    path = folder / FILE
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return content


def join(folder: Path, group: Entry) -> None:
    """The node group's nodes become nodes of the bed, as many as it now has."""
    if (there := read(folder)) and group.hidden.get("running"):
        from tools.standin import bed_nodes

        bed_nodes.join(there, _described(group))


def leave(folder: Path, group: Entry) -> None:
    if there := read(folder):
        from tools.standin import bed_nodes

        bed_nodes.leave(there, _described(group))


def _described(group: Entry) -> dict[str, Any]:
    running = group.hidden.get("running", {})
    return {
        "name": group.inputs["nodeGroupName"],
        "cluster": group.inputs["clusterName"],
        "instance_type": running.get("type", ""),
        "count": running.get("count", 0),
        "zone": running.get("zone", ""),
        "labels": group.inputs.get("labels", {}),
        "taints": group.inputs.get("taints", []),
        "efa": running.get("efa", 0),
        "capacity_type": running.get("capacity", "ON_DEMAND"),
        # Of EKS's own images only this kind brings the driver.
        "gpu_driver": "NVIDIA" in group.outputs["amiType"],
        "template": running.get("template", ""),
    }
