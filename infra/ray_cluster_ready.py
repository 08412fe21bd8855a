"""A RayCluster whose every node answers, as a resource: what comes after it can count on the ranks."""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from workload.provider_process import interrupt, reported, say

OUTPUTS = ("head_pod", "head_pod_uid", "pods", "ray_nodes")


class RayClusterReadyProvider(ResourceProvider):
    """Delegates to `infra.ray_cluster_wait`. Pickled by reference: do not rename module or class."""

    serialize_as_secret_always = False

    @reported
    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult(id_=_id_of(props), outs=_awaited(props))

    @reported
    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """A changed declaration, or pods that are not what was left behind: both wait (and explain) again."""
        from infra.ray_cluster_wait import changes

        found = changes(olds, news)
        for line in found.notices:
            say(line)
        return DiffResult(changes=found.changed)

    @reported
    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(outs=_awaited(news))

    @reported
    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """The pods end with the RayCluster, which is another resource."""


def _id_of(props: Mapping[str, Any]) -> str:
    return f"{props['head']['namespace']}/{props['head']['cluster_name']}"


def _awaited(props: Mapping[str, Any]) -> dict[str, Any]:
    from infra.ray_cluster_wait import await_cluster

    return {**props, **await_cluster(props, say=say, interrupt=interrupt)}


class RayClusterReady(Resource, module="infra", name="RayClusterReady"):
    """Done once head and workers are Ready pods of this RayCluster and alive nodes of one Ray cluster in one zone.

    `head` is `infra.ray_head.RayHead.inputs()`; `cluster_uid` the RayCluster's metadata.uid; `image` what both
    containers run; `accelerators` counts a worker's `head.worker_resource`; `one_zone`: the workers must share one.
    `pods` is a list of {name, role, node, zone, instance_type, instance_id, image, image_id, pod_ip}, head first;
    `ray_nodes` of {node_id, node_ip, role}.
    """

    head_pod: pulumi.Output[str]
    head_pod_uid: pulumi.Output[str]
    pods: pulumi.Output[list[dict[str, Any]]]
    ray_nodes: pulumi.Output[list[dict[str, Any]]]

    def __init__(
        self,
        name: str,
        *,
        head: pulumi.Input[Mapping[str, Any]],
        cluster_uid: pulumi.Input[str],
        image: str,
        workers: int,
        accelerators: int,
        one_zone: bool,
        ready_seconds: int,
        unschedulable_seconds: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(
            RayClusterReadyProvider(),
            name,
            {
                "head": head,
                "cluster_uid": cluster_uid,
                "image": image,
                "workers": workers,
                "accelerators": accelerators,
                "one_zone": one_zone,
                "ready_seconds": ready_seconds,
                "unschedulable_seconds": unschedulable_seconds,
                **dict.fromkeys(OUTPUTS),
            },
            opts,
        )
