"""The cluster that a stack is on: it stays there, whatever a kubeconfig's current context leads to later."""

from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider

from workload.errors import ReportedError
from workload.provider_process import reported


class ClusterGuardProvider(ResourceProvider):
    """Pickled by reference: do not rename module or class."""

    serialize_as_secret_always = False

    @reported
    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult(id_=props["cluster_id"], outs=props)

    @reported
    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Never a change: the provider would delete the stack's objects by name, from the wrong cluster."""
        if olds["cluster_id"] != news["cluster_id"]:
            raise ReportedError(
                f"this stack's objects are on cluster {olds['cluster_id']}, and the settings lead to "
                f"{news['cluster_id']}: set kubeconfig and kubeContext to the former; to move, `efactl down` there "
                "first. (The same cluster under a new certificate authority: set kubeClusterId to the former name)"
            )
        return DiffResult(changes=False)


class ClusterGuard(Resource, module="infra", name="ClusterGuard"):
    """Fails a preview or `up` that would lead the stack to another cluster; everything on it depends on this."""

    def __init__(self, name: str, cluster_id: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(ClusterGuardProvider(), name, {"cluster_id": cluster_id}, opts)
