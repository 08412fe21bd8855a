"""GPU nodes that are there and usable, as a resource: before any pod that needs them is declared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from workload.provider_process import differing, interrupt, reported, say

DECIDING = (
    "cluster_id",
    "instance_type",
    "nodes",
    "selector",
    "zone",
    "gpus",
    "efa",
    "tolerations",
    "addons",
)
OUTPUTS = ("ready_zone", "ready_nodes")


class GpuNodesReadyProvider(ResourceProvider):
    """Delegates to `infra.node_wait`. Pickled by reference: do not rename module or class."""

    serialize_as_secret_always = False

    @reported
    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult(id_="gpu-nodes", outs=_awaited(props))

    @reported
    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        return DiffResult(changes=bool(differing(olds, news, DECIDING)))

    @reported
    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(outs=_awaited(news))

    @reported
    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """The nodes belong to others."""


def _awaited(props: Mapping[str, Any]) -> dict[str, Any]:
    from infra.node_wait import await_nodes

    return {**props, **await_nodes(props, say=say, interrupt=interrupt)}


class GpuNodesReady(Resource, module="infra", name="GpuNodesReady"):
    """Done once the nodes are; `ready_nodes` is a list of {name, instance_id, instance_type, zone}, in one zone."""

    ready_zone: pulumi.Output[str]
    ready_nodes: pulumi.Output[list[dict[str, Any]]]

    def __init__(self, name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(GpuNodesReadyProvider(), name, {**inputs, **dict.fromkeys(OUTPUTS)}, opts)


@dataclass(frozen=True, kw_only=True)
class NodeReadinessArgs:
    """The nodes that must be there. Only `kubeconfig` and `addons` may be unknown at preview.

    `gpus` and `efa` are what each node must offer, no more and no less; 0 and 0 where the workers take no devices.
    `zone` empty accepts any zone, as long as all nodes are in one. `tolerations` are the worker pods'. `addons` is
    whatever the device plugins' installation yields: it orders the wait after them, and a change of it waits again.
    """

    kubeconfig: pulumi.Input[str]
    kube_context: str
    cluster_id: pulumi.Input[str]
    instance_type: str
    nodes: int
    selector: Mapping[str, str]
    zone: str
    gpus: int
    efa: int
    tolerations: Sequence[Mapping[str, str]]
    addons: Sequence[pulumi.Input[str | None]]
    ready_seconds: int


class NodeReadiness(pulumi.ComponentResource):
    """`zone` and `nodes` of the nodes that are ready; empty where this user may not look at nodes."""

    zone: pulumi.Output[str]
    nodes: pulumi.Output[list[dict[str, Any]]]

    def __init__(self, name: str, args: NodeReadinessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:NodeReadiness", name, None, opts)
        ready = GpuNodesReady(
            f"{name}-nodes",
            {
                "kubeconfig": pulumi.Output.secret(args.kubeconfig),
                "kube_context": args.kube_context,
                "cluster_id": args.cluster_id,
                "instance_type": args.instance_type,
                "nodes": args.nodes,
                "selector": dict(args.selector),
                "zone": args.zone,
                "gpus": args.gpus,
                "efa": args.efa,
                "tolerations": [dict(toleration) for toleration in args.tolerations],
                "addons": list(args.addons),
                "ready_seconds": args.ready_seconds,
            },
            pulumi.ResourceOptions(parent=self),
        )
        self.zone = ready.ready_zone
        self.nodes = ready.ready_nodes
        self.register_outputs({"zone": self.zone, "nodes": self.nodes})
