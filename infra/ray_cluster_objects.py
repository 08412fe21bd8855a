"""PURE: what stands beside a RayCluster in its namespace: who may reach it, where it stores, the image on its nodes."""

from typing import Any

from infra.metrics_objects import scrape_rule
from infra.ray_cluster_manifest import off_gpu_nodes, placement, pod_basics
from infra.ray_cluster_spec import METRICS_PORT, RayClusterSpec


def network_policy(spec: RayClusterSpec) -> dict[str, Any]:
    """Every port of the cluster's pods is for the cluster's pods alone, but for the metrics' where somebody scrapes
    them; port-forwards and probes come from the node."""
    own_pods = {"matchLabels": {"ray.io/cluster": spec.name}}
    scrape = [scrape_rule(spec.metrics.namespace, METRICS_PORT)] if spec.metrics else []
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"{spec.name}-only-itself", "namespace": spec.namespace},
        "spec": {
            "podSelector": own_pods,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": own_pods}]}, *scrape],
        },
    }


def volume_claim(spec: RayClusterSpec, *, storage_class: str | None, size: str) -> dict[str, Any]:
    """The claim `spec.claim`, written by every rank. None takes the cluster's default class, an empty text none."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": spec.claim, "namespace": spec.namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": size}},
            **({} if storage_class is None else {"storageClassName": storage_class}),
        },
    }


def image_pull(spec: RayClusterSpec, *, on_workers: bool = True) -> dict[str, Any]:
    """A DaemonSet that has every worker node pull the image as soon as it joins, and then only sleeps; or every other
    node, of which one will run the head."""
    name = f"{spec.name}-image-pull" if on_workers else f"{spec.name}-head-image-pull"
    labels = {"app.kubernetes.io/name": name}
    where = placement(spec) if on_workers else {"affinity": off_gpu_nodes(spec.instance)}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": spec.namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    **pod_basics(spec),
                    **where,
                    "terminationGracePeriodSeconds": 1,
                    "containers": [
                        {
                            "name": "image-pull",
                            "image": spec.image,
                            "command": ["/bin/bash", "-c", "exec sleep infinity"],
                            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
                            "resources": {
                                "requests": {"cpu": "1m", "memory": "8Mi"},
                                "limits": {"cpu": "100m", "memory": "64Mi"},
                            },
                            "securityContext": {"allowPrivilegeEscalation": False},
                        }
                    ],
                },
            },
        },
    }
