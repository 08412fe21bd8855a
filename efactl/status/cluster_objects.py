"""A stack's objects in its Kubernetes cluster, asked for side by side."""

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from efactl.status.asking import Asked, UnreachableError
from efactl.status.state import Declared
from infra.ray_cluster_state import SeenCluster
from workload.errors import ReportedError
from workload.head_pod import pods_of
from workload.kubernetes_access import KubernetesAccess, KubernetesError
from workload.kubernetes_api import NOT_FOUND, KubernetesApi

Objects = Sequence[Mapping[str, Any]]


class ClusterObjects:
    """`cluster_id` is that of the cluster which the stack is on, empty where it is not fixed."""

    def __init__(self, access: KubernetesAccess, declared: Declared | None, *, cluster_id: str, limit_s: float) -> None:
        self._access, self._cluster_id, self._declared = access, cluster_id, declared
        self._connecting = threading.Lock()
        self._nodes = Asked(lambda: self._items("/api/v1/nodes", "list the nodes"), limit_s=limit_s)
        if declared is None:
            return
        name, core = declared.name, f"/api/v1/namespaces/{declared.namespace}"
        self._pods = Asked(
            lambda: self._items(f"{core}/pods", f"list the pods of RayCluster {name}", labelSelector=pods_of(name)),
            limit_s=limit_s,
        )
        self._events = Asked(
            lambda: self._items(f"{core}/events", "list the events", fieldSelector="type=Warning"), limit_s=limit_s
        )
        self._cluster = Asked(lambda: self._ray_cluster(declared), limit_s=limit_s)

    def nodes(self) -> Objects:
        return self._nodes.answer()

    def pods(self) -> Objects:
        return self._pods.answer()

    def events(self) -> Objects:
        """They only say why: where this user may not see them, there are none."""
        try:
            return self._events.answer()
        except UnreachableError:
            return ()

    def seen(self) -> SeenCluster:
        return SeenCluster(cluster=self._cluster.answer(), pods=self.pods(), events=self.events())

    @functools.cached_property
    def _api(self) -> KubernetesApi:
        api = KubernetesApi(self._access)
        if self._cluster_id and api.identity != self._cluster_id:
            raise ReportedError(
                f"{self._access.named} leads to another cluster ({api.identity}) than the stack's ({self._cluster_id})"
            )
        return api

    def _connected(self) -> KubernetesApi:
        # Its credentials may come from a program that takes a second: once is enough.
        with self._connecting:
            return self._api

    def _items(self, path: str, doing: str, **query: str) -> Objects:
        items: Objects = self._connected().get(path, doing=doing, **query).get("items") or []
        return items

    def _ray_cluster(self, declared: Declared) -> Mapping[str, Any] | None:
        path = f"/apis/ray.io/v1/namespaces/{declared.namespace}/rayclusters/{declared.name}"
        try:
            return self._connected().get(path, doing=f"look at RayCluster {declared.name}")
        except KubernetesError as error:
            if error.status == NOT_FOUND:
                return None
            raise
