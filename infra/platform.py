"""The one choice between platforms: each brings a Ray head, and what else a run and its user need to know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from infra.local_ray import LocalRay, LocalRayArgs
from infra.ray_head import RayHead
from infra.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Platform:
    """`head` is None where the stack has no worker nodes. `pods` are what the run record names; `storage` is where
    checkpoints go, as ranks see it; `hourly_cost_usd` None where it is not this program's to know; `outputs` are stack
    outputs of the platform's own."""

    head: RayHead | None
    pods: pulumi.Input[Sequence[Mapping[str, Any]]] = ()
    storage: pulumi.Input[str]
    hourly_cost_usd: float | None
    outputs: Mapping[str, pulumi.Input[Any]] = field(default_factory=dict)


def platform_of(settings: Settings) -> Platform:
    """Declares what is under the job. The SDKs of Kubernetes and AWS cost imports that no other stack should pay."""
    if settings.eks is not None:
        from infra.eks_platform import eks_platform

        return eks_platform(settings.eks)
    if settings.kubernetes is not None:
        from infra.kubernetes_ray import KubernetesRay
        from infra.preflight import inspected

        cluster = KubernetesRay("ray", inspected(settings.kubernetes))
        return Platform(head=cluster.head, pods=cluster.pods, storage=settings.storage_path, hourly_cost_usd=None)
    head = LocalRay("ray", LocalRayArgs.of(settings.local)).head
    return Platform(head=head, storage=settings.storage_path, hourly_cost_usd=0.0)
