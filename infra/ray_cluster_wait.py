"""Waiting for a Ray cluster: watches its objects, then asks its head; and a look at it from a preview."""

import contextlib
import dataclasses
import importlib.metadata
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event
from typing import Any

from infra.cluster_facts import OPERATOR_LABELS
from infra.ray_cluster_state import (
    DeclaredCluster,
    PodsReady,
    SeenCluster,
    described_pod,
    judge_pods,
    judge_zone,
)
from infra.ray_nodes import RayView, judge_ray
from infra.wait_loop import until
from infra.waiting import Failed, Waiting
from workload.errors import ReportedError
from workload.head import Endpoint, Head, reach
from workload.head_pod import pods_of
from workload.kubernetes_access import KubernetesError
from workload.kubernetes_api import FORBIDDEN, NOT_FOUND, UNAUTHORIZED, KubernetesApi
from workload.kubernetes_watch import Watching
from workload.provider_process import differing

DECIDING = ("cluster_uid", "image", "workers", "accelerators")
DECIDING_OF_HEAD = ("namespace", "cluster_name", "ray_version", "spec_digest", "worker_resource")
ASK_RAY_S = 10.0
# Why a claim is not bound is no Warning where there is no storage class; these two only say that its pod comes first.
UNBOUND = (
    "involvedObject.kind=PersistentVolumeClaim,type=Normal,reason!=WaitForFirstConsumer,reason!=WaitForPodScheduled"
)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """`changed`: the cluster has to be waited for again; `notices` say why, or why nobody could look."""

    changed: bool
    notices: tuple[str, ...] = ()


def await_cluster(props: Mapping[str, Any], *, say: Callable[[str], None], interrupt: Event) -> dict[str, Any]:
    """The outputs of RayClusterReady from its inputs; raises ReportedError with the reason where it cannot be."""
    head = Head.from_inputs(props["head"])
    declared = dataclasses.replace(_declared(props, head), waiting_since=datetime.now(UTC))
    with Watching(KubernetesApi(head.access)) as watching, _Ray(head) as ray:
        nodes = _Nodes(watching.api)

        def look() -> dict[str, Any] | Waiting | Failed:
            pods = judge_pods(declared, _seen(declared, watching))
            if not isinstance(pods, PodsReady):
                return pods
            found = nodes.of(pods)
            if apart := judge_zone(declared, pods, found):
                return apart
            view = ray.view()
            trouble = judge_ray(declared, pods, view, client_version=importlib.metadata.version("ray"))
            return trouble or _outputs(pods, found, view)

        outputs = until(
            look,
            watching=watching,
            what=declared.named,
            seconds=float(props["ready_seconds"]),
            say=say,
            interrupt=interrupt,
        )
        say(f"{declared.named}: {declared.workers} workers and the head are Ready ({watching.api.calls} API calls)")
        return outputs


def changes(olds: Mapping[str, Any], news: Mapping[str, Any]) -> Changes:
    """What a preview can know: a changed declaration, or a cluster that is not as it was left. Two calls."""
    if differing(olds, news, DECIDING):
        return Changes(changed=True)
    if not isinstance(news["head"], Mapping) or differing(olds["head"], news["head"], DECIDING_OF_HEAD):
        return Changes(changed=True)
    head = Head.from_inputs(news["head"])
    declared = _declared(news, head)
    try:
        seen = _looked_at(KubernetesApi(head.access), declared)
    except KubernetesError as error:
        return Changes(changed=False, notices=(f"{declared.named} was not looked at: {error}",))
    pods = judge_pods(declared, seen)
    if not isinstance(pods, PodsReady):
        return Changes(changed=True, notices=(f"{declared.named}: {pods.reason}",))
    if pods.head["metadata"]["uid"] != olds.get("head_pod_uid"):
        notice = f"{declared.named}: its head pod was replaced; Ray's jobs and their records went with the old one"
        return Changes(changed=True, notices=(notice,))
    before = {str(pod["name"]) for pod in olds.get("pods") or ()}
    fresh = sorted({str(pod["metadata"]["name"]) for pod in pods.all} - before)
    if fresh:
        return Changes(changed=True, notices=(f"{declared.named}: {', '.join(fresh)} replaced other pods",))
    return Changes(changed=False)


def _declared(props: Mapping[str, Any], head: Head) -> DeclaredCluster:
    return DeclaredCluster(
        namespace=head.namespace,
        name=head.cluster_name,
        uid=props["cluster_uid"],
        image=props["image"],
        workers=int(props["workers"]),
        accelerators=int(props["accelerators"]),
        worker_resource=head.worker_resource,
        ray_version=head.ray_version,
        unschedulable_seconds=float(props["unschedulable_seconds"]),
        one_zone=bool(props.get("one_zone", True)),
    )


def _outputs(pods: PodsReady, nodes: Mapping[str, Any], view: RayView) -> dict[str, Any]:
    described = [described_pod(pod, nodes) for pod in pods.all]
    alive = [node for node in view.nodes if node.get("state") == "ALIVE"]
    return {
        "head_pod": pods.head["metadata"]["name"],
        "head_pod_uid": pods.head["metadata"]["uid"],
        "pods": described,
        "ray_nodes": [
            {
                "node_id": node["node_id"],
                "node_ip": node["node_ip"],
                "role": "head" if node.get("is_head_node") else "worker",
            }
            for node in alive
        ],
    }


def _path(declared: DeclaredCluster) -> str:
    return f"/apis/ray.io/v1/namespaces/{declared.namespace}/rayclusters"


def _seen(declared: DeclaredCluster, watching: Watching) -> SeenCluster:
    """Watches the RayCluster, its pods, what is said of them, and the operator, each from its first call on."""
    core = f"/api/v1/namespaces/{declared.namespace}"
    clusters = watching.listing(_path(declared), fieldSelector=f"metadata.name={declared.name}")
    pods = watching.listing(f"{core}/pods", labelSelector=pods_of(declared.name))
    for refused in (clusters.refused, pods.refused):
        if refused:
            raise ReportedError(f"{declared.named} cannot be followed: {refused}")
    warnings = watching.listing(f"{core}/events", fieldSelector="type=Warning")
    claims = watching.listing(f"{core}/events", fieldSelector=UNBOUND)
    operators = watching.listing("/apis/apps/v1/deployments", labelSelector=OPERATOR_LABELS)
    return SeenCluster(
        cluster=next(iter(clusters.objects), None),
        pods=pods.objects,
        events=[*warnings.objects, *claims.objects],
        operators=None if operators.refused else operators.objects,
    )


def _looked_at(api: KubernetesApi, declared: DeclaredCluster) -> SeenCluster:
    """The RayCluster and its pods, without a word on why they are as they are."""
    doing = f"looking at {declared.named}"
    cluster = None
    try:
        cluster = api.get(f"{_path(declared)}/{declared.name}", doing=doing)
    except KubernetesError as error:
        if error.status != NOT_FOUND:
            raise
    path = f"/api/v1/namespaces/{declared.namespace}/pods"
    pods = api.get(path, doing=f"listing the pods of {declared.named}", labelSelector=pods_of(declared.name))
    return SeenCluster(cluster=cluster, pods=pods["items"])


class _Nodes:
    """The nodes under the pods, each read once; none where this user may not."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._known: dict[str, Mapping[str, Any]] = {}
        self._refused = False

    def of(self, pods: PodsReady) -> Mapping[str, Mapping[str, Any]]:
        for name in {str(pod["spec"]["nodeName"]) for pod in pods.all} - set(self._known):
            if self._refused:
                break
            try:
                self._known[name] = self._api.get(f"/api/v1/nodes/{name}", doing=f"reading node {name}")
            except KubernetesError as error:
                if error.status != FORBIDDEN:
                    raise
                self._refused = True
        return self._known


class _Ray:
    """The head's answers, over one tunnel that is made when it is first asked."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._tunnel = contextlib.ExitStack()
        self._endpoint: Endpoint | None = None

    def __enter__(self) -> "_Ray":
        return self

    def __exit__(self, *_error: object) -> None:
        self._tunnel.close()

    def view(self) -> RayView:
        import urllib3

        try:
            if self._endpoint is None:
                self._endpoint = self._tunnel.enter_context(reach(self._head))
            version = self._get("/api/version")
            nodes = self._get("/api/v0/nodes?limit=10000")
        except _RefusedError as error:
            return RayView(error=str(error), status=error.status)
        except KubernetesError as error:
            return RayView(error=str(error), hopeless=error.status in (UNAUTHORIZED, FORBIDDEN))
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            return self._unanswered(error)
        return RayView(version=version["ray_version"], nodes=nodes["data"]["result"]["result"])

    def _unanswered(self, error: Exception) -> RayView:
        """The tunnel stays: it tries again by itself, and knows better than its user what is wrong."""
        try:
            why = self._endpoint.why_unreachable() if self._endpoint else ""
        except KubernetesError as final:
            return RayView(error=str(final), hopeless=True)
        return RayView(error=why or str(error) or type(error).__name__)

    def _get(self, path: str) -> Any:
        import urllib3

        assert self._endpoint is not None
        answer = urllib3.request(
            "GET", f"{self._endpoint.url}{path}", headers=dict(self._endpoint.headers), timeout=ASK_RAY_S, retries=False
        )
        if answer.status >= 400:
            raise _RefusedError(
                f"{path} answers {answer.status}: {answer.data[:200].decode(errors='replace')}", answer.status
            )
        return json.loads(answer.data)


class _RefusedError(Exception):
    """The head answered with an HTTP error."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
