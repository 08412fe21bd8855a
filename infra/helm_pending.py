"""A Helm release that an interrupted `up` left in progress is put right before the next one works on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from infra import helm_release
from infra.helm_release import ReleaseRecord
from workload.errors import ReportedError
from workload.kubernetes_access import ANSWER_S, CONNECT_S, KubernetesAccess, KubernetesError, explained
from workload.provider_process import differing, finishing, reported, say

_LIMITS = {"_request_timeout": (CONNECT_S, ANSWER_S)}
_NOT_FOUND, _CONFLICT = 404, 409


class HelmPendingProvider(ResourceProvider):
    """Asks the cluster in every preview and `up`. Pickled by reference: do not rename module or class."""

    serialize_as_secret_always = False

    @reported
    def create(self, props: dict[str, Any]) -> CreateResult:
        """The state cannot have the release yet, since it depends on this resource."""
        note = _put_right(props, in_state=False) or "deployed"
        return CreateResult(id_=f"{props['namespace']}/{props['release']}", outs={**props, "note": note})

    @reported
    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Changed where there is something to put right; a cluster that does not answer is others' to report."""
        if differing(olds, news, ("release", "namespace", "marker")):
            return DiffResult(changes=True)
        try:
            client = _access(news).client()
            found = _interrupted(client, news, in_state=_marked(client, news))
        except KubernetesError:
            return DiffResult(changes=False)
        if found:
            say(f"{_left(news, found)}: this `up` marks it failed and goes on from there")
        return DiffResult(changes=found is not None)

    @reported
    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        note = _put_right(news, in_state=None) or olds["note"]
        return UpdateResult(outs={**news, "note": note})

    @reported
    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """The stack's release is gone by now; one that is still there never got into the state."""
        try:
            client = _access(props).client()
            records = _records(client, props)
        except KubernetesError as error:
            say(f"not looked for what an interrupted `up` may have left of Helm release {props['release']}: {error}")
            return
        if records:
            with finishing():
                _remove(client, props, max(records, key=lambda record: record.version))


def _access(props: Mapping[str, Any]) -> KubernetesAccess:
    return KubernetesAccess(kubeconfig=props.get("kubeconfig") or "", context=props.get("kube_context") or "")


def _put_right(props: Mapping[str, Any], *, in_state: bool | None) -> str:
    """The note on what was done, empty where nothing was. `in_state` None asks the marker."""
    client = _access(props).client()
    known = _marked(client, props) if in_state is None else in_state
    found = _interrupted(client, props, in_state=known)
    if found is None:
        return ""
    _mark_failed(client, props, found)
    say(f"{_left(props, found)}: marked failed, so that Helm goes on from there")
    return f"deployed again after revision {found.version} was interrupted"


def _left(props: Mapping[str, Any], record: ReleaseRecord) -> str:
    how = f"left {record.status}" if record.status in helm_release.IN_PROGRESS else "deployed, unknown to the state,"
    where = f"namespace {props['namespace']}, revision {record.version}"
    return f"Helm release {props['release']} ({where}) was {how} by an interrupted operation"


def _records(client: Any, props: Mapping[str, Any]) -> list[ReleaseRecord]:
    from kubernetes import client as kubernetes

    with explained(f"looking for Helm release {props['release']} in namespace {props['namespace']}"):
        secrets = kubernetes.CoreV1Api(client).list_namespaced_secret(
            props["namespace"], label_selector=f"owner=helm,name={props['release']}", **_LIMITS
        )
    return [ReleaseRecord.of(secret.metadata.name, secret.metadata.labels) for secret in secrets.items]


def _interrupted(client: Any, props: Mapping[str, Any], *, in_state: bool) -> ReleaseRecord | None:
    return helm_release.interrupted(_records(client, props), in_state=in_state)


def _marked(client: Any, props: Mapping[str, Any]) -> bool:
    """The marker is a ConfigMap that the stack makes after the release: with it, the release is in the state."""
    from kubernetes import client as kubernetes

    try:
        with explained(f"looking for ConfigMap {props['marker']} in namespace {props['namespace']}"):
            kubernetes.CoreV1Api(client).read_namespaced_config_map(props["marker"], props["namespace"], **_LIMITS)
    except KubernetesError as error:
        if error.status == _NOT_FOUND:
            return False
        raise
    return True


def _mark_failed(client: Any, props: Mapping[str, Any], record: ReleaseRecord) -> None:
    from kubernetes import client as kubernetes

    core, namespace = kubernetes.CoreV1Api(client), props["namespace"]
    with explained(f"marking Helm release {props['release']} failed"):
        secret = core.read_namespaced_secret(record.secret, namespace, **_LIMITS)
        body = {
            # With the version that was read, a record that somebody changes meanwhile is refused, not overwritten.
            "metadata": {
                "resourceVersion": secret.metadata.resource_version,
                "labels": {"status": helm_release.FAILED},
            },
            "data": {"release": helm_release.marked_failed(secret.data["release"])},
        }
        try:
            core.patch_namespaced_secret(record.secret, namespace, body, **_LIMITS)
        except kubernetes.ApiException as error:
            if error.status != _CONFLICT:
                raise
            raise ReportedError(
                f"Helm release {props['release']} in namespace {namespace} is being worked on by another process: "
                "wait for it to end and run again"
            ) from None


def _remove(client: Any, props: Mapping[str, Any], record: ReleaseRecord) -> None:
    """What `helm uninstall` does, for a release that no state knows: its objects, then its records."""
    import yaml
    from kubernetes import client as kubernetes
    from kubernetes import dynamic

    release, namespace = props["release"], props["namespace"]
    core = kubernetes.CoreV1Api(client)
    with explained(f"removing Helm release {release} from namespace {namespace}"):
        secret = core.read_namespaced_secret(record.secret, namespace, **_LIMITS)
        api = dynamic.DynamicClient(client)
        objects = [o for o in yaml.safe_load_all(helm_release.manifest_of(secret.data["release"])) if o]
        for manifest in reversed(objects):
            kind = api.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
            where = manifest["metadata"].get("namespace", namespace) if kind.namespaced else None
            try:
                kind.delete(name=manifest["metadata"]["name"], namespace=where, **_LIMITS)
            except kubernetes.ApiException as error:
                if error.status != _NOT_FOUND:
                    raise
        core.delete_collection_namespaced_secret(namespace, label_selector=f"owner=helm,name={release}", **_LIMITS)
    say(f"Helm release {release} was left by an interrupted `up`: removed, with {len(objects)} objects that it made")


@dataclass(frozen=True, kw_only=True)
class HelmPendingArgs:
    """`release` in `namespace`; `marker` is the ConfigMap there that says: the stack's state has the release."""

    release: str
    namespace: str
    marker: str
    kubeconfig: pulumi.Input[str]
    kube_context: str


class HelmPending(Resource, module="infra", name="HelmPending"):
    """To be depended on by the Helm release of that name, with `note` as its description: what was interrupted is then
    deployed again even where nothing else has changed."""

    note: pulumi.Output[str]

    def __init__(self, name: str, args: HelmPendingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs = {
            "release": args.release,
            "namespace": args.namespace,
            "marker": args.marker,
            "kubeconfig": pulumi.Output.secret(args.kubeconfig),
            "kube_context": args.kube_context,
            "note": None,
        }
        super().__init__(HelmPendingProvider(), name, inputs, opts)
