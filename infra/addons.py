"""What Kubernetes lacks for the job: the device plugins of the GPU nodes and the KubeRay operator, as Helm releases."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra import versions
from infra.addon_decision import AddonFound, Decision, decide, release_name
from infra.addon_release import ReleaseTarget, addon_release, image_of
from infra.instances import InstanceType
from infra.kubernetes_settings import AddonSettings, KubernetesSettings
from infra.ray_cluster_manifest import off_gpu_nodes
from infra.ray_cluster_spec import GPU_NODE_LABEL, GPU_TOLERATION

PLUGIN_NAMESPACE = "kube-system"
OPERATOR_NAMESPACE = "kuberay-system"


@dataclass(frozen=True, kw_only=True)
class AddonsArgs:
    """Plain values decide what is made. `found` has an entry for each chart name the cluster was asked about.

    `namespace` is the stack's own, after which its releases are named; `kubeconfig` reaches the same cluster as the
    Kubernetes provider in the component's options. `system_made`: the operator's node is this program's to make.
    """

    namespace: str
    instance: InstanceType | None
    node_selector: Mapping[str, str]
    nvidia_plugin: AddonSettings
    efa_plugin: AddonSettings
    kuberay: AddonSettings
    image_mirror: str
    found: Mapping[str, AddonFound]
    ready_seconds: int
    kubeconfig: pulumi.Input[str]
    kube_context: str
    system_made: bool = False

    @classmethod
    def of(
        cls,
        settings: KubernetesSettings,
        *,
        instance: InstanceType | None,
        found: Mapping[str, AddonFound],
        kubeconfig: pulumi.Input[str],
        system_made: bool = False,
    ) -> "AddonsArgs":
        return cls(
            namespace=settings.namespace,
            instance=instance,
            node_selector=settings.node_selector,
            nvidia_plugin=settings.nvidia_plugin,
            efa_plugin=settings.efa_plugin,
            kuberay=settings.kuberay,
            image_mirror=settings.image_mirror,
            found=found,
            ready_seconds=settings.ready_seconds,
            kubeconfig=kubeconfig,
            kube_context=settings.access.context,
            system_made=system_made,
        )

    @property
    def target(self) -> ReleaseTarget:
        return ReleaseTarget(
            namespace=self.namespace,
            kubeconfig=self.kubeconfig,
            kube_context=self.kube_context,
            ready_seconds=self.ready_seconds,
        )

    def decisions(self) -> dict[str, Decision]:
        """By chart name. Raises BadInputError where a setting contradicts what the cluster has."""
        gpus = f"{self.instance.gpus} GPUs" if self.instance and self.instance.gpus else ""
        interfaces = self.instance.efa_interfaces if self.instance else 0
        efa = f"{interfaces} EFA interface{'s' if interfaces > 1 else ''}" if interfaces else ""
        return {
            chart.name: decide(
                setting=setting,
                mode=addon.mode,
                needed=needed,
                found=self.found.get(chart.name),
                release=release_name(self.namespace, chart),
            )
            for chart, setting, addon, needed in (
                (versions.NVIDIA_CHART, "addonNvidiaPlugin", self.nvidia_plugin, gpus),
                (versions.EFA_CHART, "addonEfaPlugin", self.efa_plugin, efa),
                (versions.KUBERAY_CHART, "addonKubeRay", self.kuberay, "Ray clusters"),
            )
        }


class Addons(pulumi.ComponentResource):
    """`decisions` says for each chart whether it is installed here; `releases` has what is, by chart name."""

    decisions: Mapping[str, Decision]
    releases: Mapping[str, k8s.helm.v3.Release]

    def __init__(self, name: str, args: AddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:Addons", name, None, opts)
        self.decisions = args.decisions()
        releases: dict[str, k8s.helm.v3.Release] = {}
        for chart, addon, values in (
            (versions.NVIDIA_CHART, args.nvidia_plugin, nvidia_values(args)),
            (versions.EFA_CHART, args.efa_plugin, efa_values(args)),
        ):
            if self.decisions[chart.name].install:
                where = PLUGIN_NAMESPACE
                releases[chart.name] = addon_release(
                    self, name, args.target, chart, addon.repository, where, where, values, awaited=False
                )
        chart = versions.KUBERAY_CHART
        if self.decisions[chart.name].install:
            namespace = k8s.core.v1.Namespace(
                f"{name}-{OPERATOR_NAMESPACE}",
                metadata={"name": OPERATOR_NAMESPACE},
                opts=pulumi.ResourceOptions(parent=self),
            )
            made = namespace.metadata["name"]
            # For nodes that are still on their way Helm would wait, and take the release back where they come late:
            # there RayClusterReady says what keeps the operator, as NodeReadiness does of a device plugin.
            values, awaited = kuberay_values(args), not args.system_made
            where, repository = OPERATOR_NAMESPACE, args.kuberay.repository
            releases[chart.name] = addon_release(
                self, name, args.target, chart, repository, where, made, values, awaited=awaited
            )
        self.releases = releases
        self.register_outputs({"installed": sorted(releases)})


def on_gpu_nodes(node_selector: Mapping[str, str]) -> dict[str, Any]:
    """Nodes with a label that tells of a GPU, ours or node feature discovery's, and the workers' nodes."""
    terms = [
        {"matchExpressions": [{"key": label, "operator": "In", "values": ["true"]}]}
        for label in (GPU_NODE_LABEL, "feature.node.kubernetes.io/pci-10de.present")
    ]
    if node_selector:
        own = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(node_selector.items())]
        terms.append({"matchExpressions": own})
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def nvidia_values(args: AddonsArgs) -> dict[str, Any]:
    return {
        "image": image_of(versions.NVIDIA_CHART, args.image_mirror),
        "affinity": on_gpu_nodes(args.node_selector),
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, GPU_TOLERATION],
    }


def efa_values(args: AddonsArgs) -> dict[str, Any]:
    """The chart picks nodes by instance type (at the pinned version it knows all of infra.instances), and adds these
    tolerations to CriticalAddonsOnly, its only own one."""
    return {"image": image_of(versions.EFA_CHART, args.image_mirror), "tolerations": [GPU_TOLERATION]}


def kuberay_values(args: AddonsArgs) -> dict[str, Any]:
    """On a system node: it must not take CPU from a worker that asks for most of its node."""
    return {
        "image": image_of(versions.KUBERAY_CHART, args.image_mirror),
        "affinity": off_gpu_nodes(args.instance),
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"cpu": "1", "memory": "512Mi"},
        },
    }
