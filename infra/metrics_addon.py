"""Metrics: Prometheus, Grafana and NVIDIA's exporter where a stack brings them, and what scrapes and shows its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra import metrics_objects, versions
from infra.addon_release import ReleaseTarget, addon_release, image_of
from infra.addons import on_gpu_nodes
from infra.auth_token import RayAuthToken
from infra.instances import InstanceType
from infra.metrics_settings import MetricsSettings
from infra.ray_cluster_manifest import off_gpu_nodes
from infra.ray_cluster_spec import GPU_TOLERATION


@dataclass(frozen=True, kw_only=True)
class MetricsArgs:
    """`target.namespace` is the Ray cluster's. `instance` None: no GPUs, so nothing to export of them."""

    metrics: MetricsSettings
    target: ReleaseTarget
    instance: InstanceType | None
    node_selector: Mapping[str, str]
    image_mirror: str


class MetricsAddon(pulumi.ComponentResource):
    """`namespace` is where Prometheus is; with `install` it is made here, and goes with the stack.

    Nothing waits for it, and no job fails for want of it.
    """

    namespace: pulumi.Output[str]

    def __init__(self, name: str, args: MetricsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:MetricsAddon", name, None, opts)
        metrics, ray_namespace = args.metrics, args.target.namespace
        own = pulumi.ResourceOptions(parent=self)
        namespace: pulumi.Input[str] = metrics.namespace
        kinds: list[pulumi.Resource] = []
        if metrics.install:
            made = k8s.core.v1.Namespace(f"{name}-namespace", metadata={"name": metrics.namespace}, opts=own)
            namespace = made.metadata["name"]
            policy = metrics_objects.network_policy(metrics, ray_namespace=ray_namespace)
            k8s.networking.v1.NetworkPolicy(f"{name}-network-policy", **_in(namespace, policy), opts=own)
            kinds = [self._prometheus(name, args, namespace)]
            if args.instance is not None and args.instance.gpus:
                self._dcgm(name, args, namespace, kinds)
        monitor = metrics_objects.pod_monitor(metrics, ray_namespace=ray_namespace)
        k8s.apiextensions.CustomResource(
            f"{name}-ray-pods",
            api_version=monitor["apiVersion"],
            kind=monitor["kind"],
            **_in(namespace, monitor),
            # The chart brings the kind.
            opts=pulumi.ResourceOptions(parent=self, depends_on=kinds),
        )
        for shown, content in metrics_objects.dashboard_maps(metrics, ray_namespace=ray_namespace).items():
            k8s.core.v1.ConfigMap(f"{name}-dashboard-{shown}", **_in(namespace, content, "data"), opts=own)
        self.namespace = pulumi.Output.from_input(namespace)
        self.register_outputs({"namespace": self.namespace})

    def _prometheus(self, name: str, args: MetricsArgs, namespace: pulumi.Input[str]) -> k8s.helm.v3.Release:
        own = pulumi.ResourceOptions(parent=self)
        password = RayAuthToken(f"{name}-grafana-password", own).token
        secret = k8s.core.v1.Secret(
            f"{name}-grafana-admin",
            metadata={"name": metrics_objects.GRAFANA_SECRET, "namespace": namespace},
            string_data={"user": "admin", "password": password},
            opts=own,
        )
        values = metrics_objects.prometheus_values(
            args.metrics, mirror=args.image_mirror, off_gpu_nodes=off_gpu_nodes(args.instance)
        )
        return addon_release(
            self,
            name,
            args.target,
            versions.PROMETHEUS_CHART,
            args.metrics.prometheus_repository,
            args.metrics.namespace,
            namespace,
            values,
            # Its pods need nodes that may be still on their way, and no one needs them.
            awaited=False,
            # Named in the values, and read when Grafana's pod starts.
            after=[secret],
        )

    def _dcgm(
        self, name: str, args: MetricsArgs, namespace: pulumi.Input[str], kinds: list[pulumi.Resource]
    ) -> k8s.helm.v3.Release:
        values = metrics_objects.dcgm_values(
            args.metrics,
            image=image_of(versions.DCGM_CHART, args.image_mirror),
            affinity=on_gpu_nodes(args.node_selector),
            toleration=GPU_TOLERATION,
        )
        repository, where = args.metrics.dcgm_repository, args.metrics.namespace
        return addon_release(
            self,
            name,
            args.target,
            versions.DCGM_CHART,
            repository,
            where,
            namespace,
            values,
            awaited=False,
            # Its chart has a ServiceMonitor, a kind that Prometheus's brings.
            after=kinds,
        )


def _in(namespace: pulumi.Input[str], manifest: Mapping[str, Any], body: str = "spec") -> dict[str, Any]:
    return {"metadata": {**manifest["metadata"], "namespace": namespace}, body: manifest[body]}
