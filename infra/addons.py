"""What Kubernetes lacks for the job: the device plugins of the GPU nodes and the KubeRay operator, as Helm releases."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra import versions
from infra.addon_decision import AddonFound, Decision, decide, release_name
from infra.helm_pending import HelmPending, HelmPendingArgs
from infra.instances import InstanceType
from infra.kubernetes_settings import AddonSettings, KubernetesSettings
from infra.ray_cluster_manifest import off_gpu_nodes
from infra.ray_cluster_spec import GPU_NODE_LABEL, GPU_TOLERATION
from infra.versions import Chart

PLUGIN_NAMESPACE = "kube-system"
OPERATOR_NAMESPACE = "kuberay-system"
# A first node may still be on its way.
_SHORTEST_SECONDS = 300


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
                release = _release(
                    self, name, args, chart, addon, PLUGIN_NAMESPACE, PLUGIN_NAMESPACE, values, awaited=False
                )
                releases[chart.name] = release
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
            releases[chart.name] = _release(
                self, name, args, chart, args.kuberay, OPERATOR_NAMESPACE, made, values, awaited=awaited
            )
        self.releases = releases
        self.register_outputs({"installed": sorted(releases)})


def _release(
    parent: pulumi.Resource,
    name: str,
    args: AddonsArgs,
    chart: Chart,
    addon: AddonSettings,
    namespace: str,
    namespace_made: pulumi.Input[str],
    values: Mapping[str, Any],
    *,
    awaited: bool,
) -> k8s.helm.v3.Release:
    """The release between what puts an interrupted predecessor right and the marker that says it is in the state."""
    release_named = release_name(args.namespace, chart)
    marker_name = f"{release_named}-deployed"
    pending = HelmPending(
        f"{name}-{chart.name}-pending",
        HelmPendingArgs(
            release=release_named,
            namespace=namespace,
            marker=marker_name,
            kubeconfig=args.kubeconfig,
            kube_context=args.kube_context,
        ),
        pulumi.ResourceOptions(parent=parent),
    )
    release = k8s.helm.v3.Release(
        f"{name}-{chart.name}",
        name=release_named,
        namespace=namespace_made,
        **chart_source(chart, addon.repository),
        values=values,
        description=pending.note,
        # What keeps a device plugin from its nodes, NodeReadiness knows and says; Helm would only wait.
        atomic=awaited,
        skip_await=not awaited,
        replace=True,
        timeout=max(args.ready_seconds, _SHORTEST_SECONDS),
        opts=pulumi.ResourceOptions(parent=parent),
    )
    k8s.core.v1.ConfigMap(
        f"{name}-{chart.name}-deployed",
        metadata={"name": marker_name, "namespace": namespace_made},
        data={"release": release_named},
        # Made after the release, removed before it: that is all it says.
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[release]),
    )
    return release


def chart_source(chart: Chart, repository: str) -> dict[str, Any]:
    """Where Helm takes a chart from; a chart in a folder has the version it has."""
    if repository.startswith("oci://"):
        return {"chart": f"{repository.rstrip('/')}/{chart.name}", "version": chart.version}
    if "://" in repository:
        return {"chart": chart.name, "version": chart.version, "repository_opts": {"repo": repository}}
    return {"chart": f"{repository.rstrip('/')}/{chart.name}"}


def _image(chart: Chart, mirror: str) -> dict[str, str]:
    return {"repository": f"{mirror or chart.registry}/{chart.image}", "tag": chart.tag}


def nvidia_values(args: AddonsArgs) -> dict[str, Any]:
    """On nodes with a label that tells of a GPU, ours or node feature discovery's, and on the workers' nodes."""
    terms = [
        {"matchExpressions": [{"key": label, "operator": "In", "values": ["true"]}]}
        for label in (GPU_NODE_LABEL, "feature.node.kubernetes.io/pci-10de.present")
    ]
    if args.node_selector:
        own = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(args.node_selector.items())]
        terms.append({"matchExpressions": own})
    return {
        "image": _image(versions.NVIDIA_CHART, args.image_mirror),
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, GPU_TOLERATION],
    }


def efa_values(args: AddonsArgs) -> dict[str, Any]:
    """The chart picks nodes by instance type (at the pinned version it knows all of infra.instances), and adds these
    tolerations to CriticalAddonsOnly, its only own one."""
    return {"image": _image(versions.EFA_CHART, args.image_mirror), "tolerations": [GPU_TOLERATION]}


def kuberay_values(args: AddonsArgs) -> dict[str, Any]:
    """On a system node: it must not take CPU from a worker that asks for most of its node."""
    return {
        "image": _image(versions.KUBERAY_CHART, args.image_mirror),
        "affinity": off_gpu_nodes(args.instance),
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"cpu": "1", "memory": "512Mi"},
        },
    }
