"""The one choice between platforms: each brings a Ray head, and what else a run and its user need to know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from infra.instances import InstanceType
from infra.local_ray import LocalRay, LocalRayArgs
from infra.ray_head import RayHead
from infra.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Platform:
    """`head` is None where the stack has no worker nodes. `pods` are what the run record names; `storage` is where
    checkpoints go, as ranks see it; `hourly_cost_usd` None where it is not this program's to know; `outputs` are stack
    outputs of the platform's own; `instance` is the GPU nodes' type, None where they have no GPUs. `run_key` says which
    run is asked for (infra/last_run.py), "" where nothing depends on it; `run_again`: an `up` after the run gives its
    nodes back."""

    head: RayHead | None
    pods: pulumi.Input[Sequence[Mapping[str, Any]]] = ()
    storage: pulumi.Input[str]
    hourly_cost_usd: float | None
    outputs: Mapping[str, pulumi.Input[Any]] = field(default_factory=dict)
    instance: InstanceType | None = None
    run_key: str = ""
    run_again: bool = False

    @property
    def nics(self) -> int | None:
        """EFA interfaces that each host must have found: all that its pod asks for. None where there are none.

        aws-ofi-nccl names their number before it groups several for one GPU: 4 on p4d, 32 on p5, 16 on p5en. Only
        OFI_NCCL_NIC_DUP_CONNS makes it another, a larger one.
        """
        return (self.instance.efa_interfaces or None) if self.instance else None

    @property
    def gdr(self) -> bool:
        """Whether GPUs and EFA interfaces reach each other's memory, so that every channel must do so."""
        return self.instance is not None and self.instance.efa_interfaces > 0 and self.instance.gpudirect_rdma


def platform_of(settings: Settings) -> Platform:
    """Declares what is under the job. The SDKs of Kubernetes and AWS cost imports that no other stack should pay."""
    if settings.eks is not None:
        from infra.eks_platform import eks_platform
        from infra.last_run import key_of

        return eks_platform(settings.eks, due=key_of(settings, settings.eks) if settings.trains else "")
    if settings.kubernetes is not None:
        from infra.kubernetes_ray import KubernetesRay
        from infra.preflight import inspected

        cluster = KubernetesRay("ray", inspected(settings.kubernetes))
        return Platform(
            head=cluster.head,
            pods=cluster.pods,
            storage=settings.storage_path,
            hourly_cost_usd=None,
            instance=settings.kubernetes.instance,
        )
    head = LocalRay("ray", LocalRayArgs.of(settings.local)).head
    return Platform(head=head, storage=settings.storage_path, hourly_cost_usd=0.0)
