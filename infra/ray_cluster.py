"""The Ray cluster as Kubernetes objects: the RayCluster, and what it needs beside the operator and the nodes."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra import ray_cluster_manifest, ray_cluster_objects
from infra.auth_token import RayAuthToken
from infra.instances import InstanceType
from infra.kubernetes_settings import KubernetesSettings
from infra.ray_cluster_spec import CLAIM_NAME, SECRET_KEY, STACK_LABEL, RayClusterSpec

# Running pods follow a change of the replicas alone (kuberay#4051): all else needs a new RayCluster.
REPLACING = [
    "spec.rayVersion",
    "spec.headGroupSpec",
    "spec.workerGroupSpecs[*].groupName",
    "spec.workerGroupSpecs[*].rayStartParams",
    "spec.workerGroupSpecs[*].template",
]
SECRETS_ANNOTATION = "ray-train-efa/secrets"
_UNAWAITED = {"pulumi.com/skipAwait": "true"}


@dataclass(frozen=True, kw_only=True)
class RayClusterArgs:
    """`spec` decides what is made; `claim_made`: its claim too, of `storage_class` and `storage_size`.

    `pre_pull` has the image pulled on the worker nodes, `head_pre_pull` on all others. `claim_volume` is the
    PersistentVolume that the claim is bound to, if any. `after` is what pods need of others: the operator's release,
    nodes that are ready. What costs nothing without them (Secrets, the claim, the image's pull) does not wait for it.
    """

    spec: RayClusterSpec
    namespace_made: bool
    claim_made: bool
    storage_class: str
    storage_size: str
    storage_keep: bool
    pre_pull: bool
    head_pre_pull: bool = False
    claim_volume: pulumi.Input[str] | None = None
    hf_token: pulumi.Output[str] | None = field(default=None, repr=False, compare=False)
    after: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(
        cls,
        settings: KubernetesSettings,
        *,
        instance: InstanceType | None,
        service_account: str = "",
        claim_volume: pulumi.Input[str] | None = None,
        own_system_nodes: bool = False,
        after: Sequence[pulumi.Resource] = (),
    ) -> "RayClusterArgs":
        ray, storage = settings.ray, settings.storage
        claim_made = not storage.claim and storage.in_claim
        spec = RayClusterSpec(
            namespace=settings.namespace,
            image=ray.image,
            ray_version=ray.version,
            instance=instance,
            nodes=settings.nodes,
            zone=settings.zone,
            node_selector=settings.node_selector,
            head_cpu=ray.head_cpu,
            head_memory=ray.head_memory,
            worker_cpu=ray.worker_cpu,
            worker_memory=ray.worker_memory,
            shm_size=ray.shm_size,
            tmp_size=ray.tmp_size,
            trainers_per_node=ray.trainers_per_node,
            env=ray.env,
            pull_secret=ray.pull_secret,
            claim=storage.claim,
            hf_token=settings.hf_token is not None,
            service_account=service_account,
            metrics=settings.metrics,
        )
        return cls(
            spec=replace(spec, claim=CLAIM_NAME) if claim_made else spec,
            namespace_made=settings.namespace_mode == "create",
            claim_made=claim_made,
            storage_class=storage.storage_class,
            storage_size=storage.size,
            storage_keep=storage.keep,
            pre_pull=ray.pre_pull,
            # Elsewhere the other nodes are many, and none of them ours to fill.
            head_pre_pull=ray.pre_pull and own_system_nodes,
            claim_volume=claim_volume,
            hf_token=settings.hf_token,
            after=after,
        )


class RayCluster(pulumi.ComponentResource):
    """Declared; that its pods are Ready is another resource's to say.

    `uid` is the RayCluster's metadata.uid, another one after each replacement; `token` is a secret; `resource` the
    RayCluster itself, to depend on. The provider comes with the component's options.
    """

    uid: pulumi.Output[str]
    token: pulumi.Output[str]
    spec_digest: str
    resource: k8s.apiextensions.CustomResource

    def __init__(self, name: str, args: RayClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:RayCluster", name, None, opts)
        spec = args.spec
        own = pulumi.ResourceOptions(parent=self)
        # A kept claim does not outlive its namespace.
        kept = pulumi.ResourceOptions(parent=self, retain_on_delete=args.claim_made and args.storage_keep)
        namespace: pulumi.Input[str] = spec.namespace
        if args.namespace_made:
            made = k8s.core.v1.Namespace(
                f"{name}-namespace",
                metadata={"name": spec.namespace, "labels": {STACK_LABEL: pulumi.get_stack()}},
                opts=kept,
            )
            namespace = made.metadata["name"]

        self.token = RayAuthToken(f"{name}-auth-token", own).token
        needed: list[pulumi.Resource] = [
            _secret(f"{name}-auth-token-secret", spec.token_secret, namespace, self.token, own),
            k8s.networking.v1.NetworkPolicy(
                f"{name}-network-policy", **_in(namespace, ray_cluster_objects.network_policy(spec)), opts=own
            ),
        ]
        if args.hf_token is not None:
            needed.append(_secret(f"{name}-hf-token-secret", spec.hf_token_secret, namespace, args.hf_token, own))
        if args.claim_made:
            bound = args.claim_volume is not None
            storage_class = "" if bound else args.storage_class or None
            claim = ray_cluster_objects.volume_claim(spec, storage_class=storage_class, size=args.storage_size)
            if bound:
                claim["spec"]["volumeName"] = args.claim_volume
            # Many a storage class binds a claim when its first pod comes: not to be waited for here.
            needed.append(
                k8s.core.v1.PersistentVolumeClaim(f"{name}-storage", **_in(namespace, claim, _UNAWAITED), opts=kept)
            )
        if spec.service_account:
            needed.append(
                k8s.core.v1.ServiceAccount(
                    f"{name}-service-account",
                    metadata={"name": spec.service_account, "namespace": namespace},
                    automount_service_account_token=False,
                    opts=own,
                )
            )
        if args.pre_pull:
            pull = ray_cluster_objects.image_pull(spec)
            k8s.apps.v1.DaemonSet(f"{name}-image-pull", **_in(namespace, pull, _UNAWAITED), opts=own)
        if args.head_pre_pull:
            pull = ray_cluster_objects.image_pull(spec, on_workers=False)
            k8s.apps.v1.DaemonSet(f"{name}-head-image-pull", **_in(namespace, pull, _UNAWAITED), opts=own)

        manifest = ray_cluster_manifest.ray_cluster(spec)
        _mark(manifest, _fingerprint(self.token, args.hf_token))
        annotations = {
            "pulumi.com/patchForce": "true",
            "pulumi.com/deletionPropagationPolicy": "foreground",
        }
        self.resource = k8s.apiextensions.CustomResource(
            f"{name}-raycluster",
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            **_in(namespace, manifest, annotations),
            # No pod may start before its Secrets and its policy are there, none outlive them.
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*needed, *args.after],
                replace_on_changes=REPLACING,
                delete_before_replace=True,
            ),
        )
        # A preview of what is not there yet has the metadata without a uid.
        self.uid = self.resource.metadata.apply(lambda metadata: metadata.get("uid"))  # type: ignore[attr-defined]
        self.spec_digest = ray_cluster_manifest.spec_digest(spec)
        self.register_outputs({"uid": self.uid, "specDigest": self.spec_digest})


def _in(
    namespace: pulumi.Input[str], manifest: Mapping[str, Any], annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A manifest's metadata and spec as arguments; a namespace that comes from its resource is waited for."""
    metadata = {**manifest["metadata"], "namespace": namespace, "labels": {STACK_LABEL: pulumi.get_stack()}}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": manifest["spec"]}


def _fingerprint(*secrets: pulumi.Output[str] | None) -> pulumi.Output[str]:
    """Of random tokens: it tells nothing of them."""
    given = [secret for secret in secrets if secret is not None]
    joined = pulumi.Output.all(*given).apply(lambda values: hashlib.sha256("\n".join(values).encode()).hexdigest()[:16])
    return pulumi.Output.unsecret(joined)


def _mark(manifest: Mapping[str, Any], fingerprint: pulumi.Output[str]) -> None:
    """Pods read their secrets once, when they start: a renewed one is a reason to replace them."""
    annotated = {"annotations": {SECRETS_ANNOTATION: fingerprint}}
    manifest["spec"]["headGroupSpec"]["template"]["metadata"] = annotated
    manifest["spec"]["workerGroupSpecs"][0]["template"]["metadata"] = annotated


def _secret(
    name: str, secret: str, namespace: pulumi.Input[str], value: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> k8s.core.v1.Secret:
    return k8s.core.v1.Secret(
        name,
        metadata={"name": secret, "namespace": namespace},
        string_data={SECRET_KEY: pulumi.Output.secret(value)},
        opts=opts,
    )
