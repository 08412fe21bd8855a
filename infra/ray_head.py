"""What a platform hands to the job: a Ray head, however it came to be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi


@dataclass(frozen=True, kw_only=True)
class RayHead:
    """A head that RayTrainJob can use. `nodes` x `accelerators_per_node` ranks fit; all but the strings a platform only
    learns while it deploys are plain, so that a preview knows whether a run is due."""

    kind: str
    namespace: str
    cluster_name: str
    ray_version: str
    spec_digest: str
    nodes: int
    accelerators_per_node: int
    worker_resource: str
    image: str
    address: pulumi.Input[str] = ""
    token: pulumi.Input[str] = ""
    kubeconfig: pulumi.Input[str] = ""
    kube_context: str = ""

    def inputs(self) -> Mapping[str, Any]:
        """As an input of RayTrainJob; `workload.head.Head.from_inputs` reads it back."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "cluster_name": self.cluster_name,
            "ray_version": self.ray_version,
            "spec_digest": self.spec_digest,
            "nodes": self.nodes,
            "accelerators_per_node": self.accelerators_per_node,
            "worker_resource": self.worker_resource,
            "address": self.address,
            "token": pulumi.Output.secret(self.token),
            "kubeconfig": pulumi.Output.secret(self.kubeconfig),
            "kube_context": self.kube_context,
        }
