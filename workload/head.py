"""Reaching a Ray head: where its Jobs API answers, and with which header."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workload.errors import ReportedError

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Head:
    """A Ray head as a platform hands it over (`infra.ray_head.RayHead`, resolved).

    `nodes` x `accelerators_per_node` ranks are expected; `worker_resource` is the Ray resource that one rank takes.
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
        )

    @property
    def accelerators(self) -> int:
        return self.nodes * self.accelerators_per_node


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A Jobs API that can be called from here: `url` and the headers that authorise."""

    url: str
    headers: Mapping[str, str] = field(repr=False)


@contextlib.contextmanager
def reach(head: Head) -> Iterator[Endpoint]:
    """Yields the head's Jobs API for as long as the context lasts; a tunnel, where one is needed, ends with it."""
    if head.kind != "local":
        raise ReportedError(f"a head of kind '{head.kind}' cannot be reached by this version; platform 'local' can")
    _keep_off_proxies()
    headers = {"Authorization": f"Bearer {head.token}"} if head.token else {}
    yield Endpoint(url=head.address, headers=headers)


def _keep_off_proxies() -> None:
    """The Jobs client honours HTTP_PROXY, also for loopback, and lets RAY_ADDRESS override the address it is given."""
    for variable in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        os.environ.pop(variable, None)
    for variable in ("NO_PROXY", "no_proxy"):
        exempt = [host for host in os.environ.get(variable, "").split(",") if host]
        if LOOPBACK not in exempt:
            os.environ[variable] = ",".join([*exempt, LOOPBACK, "localhost"])
