"""PURE: what a stack's state, exported once, says of the stack: its cluster, what it costs, and since when it is up."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from efactl.leftovers import BILLED
from efactl.stack import CLUSTER_GUARD_TYPE, LOCAL_CLUSTER_TYPE, Stack, plain
from efactl.stack_secrets import texts_in
from efactl.status.price import Price, price
from infra.kubernetes_objects import Object
from infra.prices import prices_of
from workload.head import Head
from workload.recorded_run import at, moment

RAY_CLUSTER_TYPE = "kubernetes:ray.io/v1:RayCluster"
NODES_TYPE = "pulumi-python:dynamic/infra:GpuNodesReady"


class ReadStack(Stack):
    """A stack over resources that have been read: whatever it is asked, nothing is exported again."""

    def __init__(self, stack: Stack, resources: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(stack.name)
        self._asked, self._held = stack, list(resources)

    def resources(self) -> list[Mapping[str, Any]]:
        return self._held

    def config(self, key: str) -> Any:
        return self._asked.config(key)

    def foreign_config(self, name: str) -> Any:
        return self._asked.foreign_config(name)

    @property
    def is_up(self) -> bool:
        """Whether anything of it is there."""
        return any(resource.get("custom") for resource in self._held)

    def outputs_of(self, token: str) -> Mapping[str, Any]:
        found = self.resource(token) or {}
        outputs: Mapping[str, Any] = plain(found.get("outputs") or found.get("inputs") or {})
        return outputs

    @property
    def local_directory(self) -> str:
        """Of the local Ray cluster; empty where there is none."""
        return str(self.outputs_of(LOCAL_CLUSTER_TYPE).get("directory") or "")

    @property
    def cluster_id(self) -> str:
        """The Kubernetes cluster that the stack may be on; empty where that is not fixed."""
        return str((self.resource(CLUSTER_GUARD_TYPE) or {}).get("id") or "")


@dataclass(frozen=True, kw_only=True)
class Declared:
    """The stack's Ray cluster in Kubernetes; `uid` empty: it is not known yet which object it is."""

    namespace: str
    name: str
    uid: str
    image: str
    workers: int
    ray_version: str


def declared_cluster(stack: ReadStack, head: Head | None) -> Declared | None:
    """By the RayCluster in state, which is there while its pods are still waited for, else by the head."""
    found: Object = stack.outputs_of(RAY_CLUSTER_TYPE)
    groups = at(found, "spec", "workerGroupSpecs") or []
    if found.get("metadata"):
        containers = at(found, "spec", "headGroupSpec", "template", "spec", "containers") or [{}]
        return Declared(
            namespace=str(at(found, "metadata", "namespace") or ""),
            name=str(at(found, "metadata", "name") or ""),
            uid=str(at(found, "metadata", "uid") or ""),
            image=str(containers[0].get("image") or ""),
            workers=sum(int(group.get("replicas") or 0) for group in groups),
            ray_version=str(at(found, "spec", "rayVersion") or ""),
        )
    if head is None or head.kind != "kubernetes":
        return None
    return Declared(
        namespace=head.namespace,
        name=head.cluster_name,
        uid="",
        image="",
        workers=head.nodes,
        ray_version=head.ray_version,
    )


def node_selector(stack: ReadStack) -> Mapping[str, str] | None:
    """The labels of the worker nodes; None before they were waited for."""
    selector = stack.outputs_of(NODES_TYPE).get("selector")
    return selector if isinstance(selector, Mapping) else None


def cost(stack: ReadStack, now: datetime.datetime) -> dict[str, Any]:
    """What all that is in the state costs an hour, None where that is not known, and since the first of it was made.

    The sum takes the whole stack as there since then, at the price of now.
    """
    platform, prices = stack.config("platform"), prices_of(str(stack.foreign_config("aws:region") or ""))
    # Of others' clusters nobody here knows the price; this machine bills nothing.
    now_there = Price(hourly_usd=0.0 if platform == "local" else None, lacks=(), notes=())
    if platform == "eks":
        now_there = price(stack.resources(), prices, now=now)
    hourly = now_there.hourly_usd
    since = _up_since(stack.resources())
    hours = (now - since).total_seconds() / 3600 if since else None
    return {
        "hourlyUsd": hourly,
        "upSince": since.isoformat(timespec="seconds") if since else None,
        "hoursUp": round(hours, 4) if hours is not None else None,
        "sinceUpUsd": round(hourly * hours, 4) if hourly is not None and hours is not None else None,
        "pricesOf": prices.as_of.isoformat() if platform == "eks" else None,
        "lacks": list(now_there.lacks),
        "notes": list(now_there.notes),
    }


def _up_since(resources: Sequence[Mapping[str, Any]]) -> datetime.datetime | None:
    """When the first of what bills was made; where nothing does, the first of the cluster's own resources."""
    own = [one for one in resources if one.get("custom") and not one.get("external")]
    billed = [one for one in own if one["type"] in BILLED]
    clusters = [one for one in own if one["type"] in (LOCAL_CLUSTER_TYPE, RAY_CLUSTER_TYPE)]
    return min((made for one in billed or clusters if (made := moment(one.get("created")))), default=None)


def secrets_in(value: Any) -> Iterator[str]:
    """Every secret text in a state that was exported with its secrets readable."""
    if isinstance(value, Mapping) and "plaintext" in value:
        yield from texts_in(plain(value))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from secrets_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from secrets_in(item)
