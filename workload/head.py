"""Reaching a Ray head: where its Jobs API answers, and with which header."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workload.errors import ReportedError
from workload.kubernetes_access import KubernetesAccess

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Head:
    """A Ray head as a platform hands it over (`infra.ray_head.RayHead`, resolved).

    `nodes` x `accelerators_per_node` ranks are expected; `worker_resource` is the Ray resource that one rank takes.
    Kind `local` has an `address`; kind `kubernetes` is found by namespace and cluster name, with `kubeconfig` (path,
    text or empty) and `kube_context` as `KubernetesAccess` takes them.
    """

    kind: str
    namespace: str
    cluster_name: str
    ray_version: str
    spec_digest: str
    nodes: int
    accelerators_per_node: int
    worker_resource: str
    address: str = ""
    token: str = field(default="", repr=False)
    kubeconfig: str = field(default="", repr=False)
    kube_context: str = ""

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> "Head":
        """From a resource's `head` input; numbers arrive from the engine as floats."""
        return cls(
            kind=inputs["kind"],
            namespace=inputs["namespace"],
            cluster_name=inputs["cluster_name"],
            ray_version=inputs["ray_version"],
            spec_digest=inputs["spec_digest"],
            nodes=int(inputs["nodes"]),
            accelerators_per_node=int(inputs["accelerators_per_node"]),
            worker_resource=inputs["worker_resource"],
            address=inputs.get("address") or "",
            token=inputs.get("token") or "",
            kubeconfig=inputs.get("kubeconfig") or "",
            kube_context=inputs.get("kube_context") or "",
        )

    @property
    def access(self) -> KubernetesAccess:
        """To the cluster that a head of kind kubernetes is on."""
        return KubernetesAccess(kubeconfig=self.kubeconfig, context=self.kube_context)

    @property
    def accelerators(self) -> int:
        return self.nodes * self.accelerators_per_node

    @property
    def stack_mark(self) -> str:
        """Tells the stack from every other, whatever their names, as long as it is not destroyed; empty if unknown.

        By its token, which a head that was replaced has from the one before.
        """
        return hashlib.sha256(self.token.encode()).hexdigest()[:16] if self.token else ""

    @property
    def named(self) -> str:
        """The cluster, as messages name it."""
        if self.kind == "kubernetes":
            return f"RayCluster {self.cluster_name} in namespace {self.namespace}"
        return "this cluster"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A Jobs API that can be called from here: `url` and the headers that authorise.

    `why_unreachable` says what a failed connection came from, where that is known beyond the connection's own error;
    it raises ReportedError where waiting is in vain.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    why_unreachable: Callable[[], str] = field(default=str, repr=False)

    def unreachable(self) -> str:
        """A failed connection in words. Raises as `why_unreachable` does."""
        return ": ".join(filter(None, (f"no Ray head answers at {self.url}", self.why_unreachable())))


@contextlib.contextmanager
def reach(head: Head) -> Iterator[Endpoint]:
    """Yields the head's Jobs API for as long as the context lasts; a tunnel, where one is needed, ends with it.

    Raises KubernetesError where the kubeconfig cannot be used; a head that does not answer is the caller's to find out.
    """
    _keep_off_proxies()
    headers = {"Authorization": f"Bearer {head.token}"} if head.token else {}
    if head.kind == "local":
        yield Endpoint(url=head.address, headers=headers)
    elif head.kind == "kubernetes":
        # What it needs costs an import that no local stack should pay.
        from workload.port_forward import PortForward

        with PortForward(head.access, namespace=head.namespace, cluster=head.cluster_name) as forward:
            yield Endpoint(url=forward.url, headers=headers, why_unreachable=forward.why_unreachable)
    else:
        raise ReportedError(f"a head of kind '{head.kind}' cannot be reached by this version; local and kubernetes can")


def _keep_off_proxies() -> None:
    """The Jobs client honours HTTP_PROXY, also for loopback, and lets RAY_ADDRESS override the address it is given."""
    for variable in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        os.environ.pop(variable, None)
    for variable in ("NO_PROXY", "no_proxy"):
        exempt = [host for host in os.environ.get(variable, "").split(",") if host]
        if LOOPBACK not in exempt:
            os.environ[variable] = ",".join([*exempt, LOOPBACK, "localhost"])
