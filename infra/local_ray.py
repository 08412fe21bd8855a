"""The local platform: a Ray cluster of several nodes on this machine, handed on as a RayHead."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult

from infra import local_nodes, versions
from infra.ray_head import RayHead
from infra.settings import LocalSettings
from workload.errors import ReportedError
from workload.job_spec import digest_of
from workload.provider_process import engine_alive, finishing, reported, say

TRAINER = "trainer"
SPEC = ("stack", "worker_nodes", "trainers_per_node", "object_store_mib", "dashboard_port", "ray_version")


class LocalRayClusterProvider(ResourceProvider):
    """Delegates to `infra.local_nodes`. Pickled by reference: do not rename module or class."""

    serialize_as_secret_always = False

    @reported
    def create(self, props: dict[str, Any]) -> CreateResult:
        with finishing():
            outs = _started(props, local_nodes.cluster_directory(Path.cwd(), props["stack"]))
        return CreateResult(id_=outs["cluster_id"], outs=outs)

    @reported
    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """A changed setting, or processes that are not all there: both restart the cluster in place."""
        changed = [key for key in SPEC if olds.get(key) != news.get(key)]
        if not changed and local_nodes.inspect(Path(olds["directory"])).state != "running":
            changed = ["health"]
        return DiffResult(changes=bool(changed))

    @reported
    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        with finishing():
            return UpdateResult(outs=_started(news, Path(olds["directory"])))

    @reported
    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        health = local_nodes.inspect(Path(props["directory"]))
        return ReadResult(id_, {**props, "health": ": ".join([health.state, *health.reasons[:1]])})

    @reported
    def delete(self, _id: str, props: dict[str, Any]) -> None:
        with finishing():
            local_nodes.stop(Path(props["directory"]), say=say)


def _lock_digest() -> str:
    """What an image's digest is elsewhere: any package that changes is another environment."""
    return hashlib.sha256(Path("requirements.lock").read_bytes()).hexdigest()


def _started(props: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    spec = local_nodes.LocalClusterSpec(
        name=props["stack"],
        directory=directory,
        worker_nodes=int(props["worker_nodes"]),
        trainers_per_node=int(props["trainers_per_node"]),
        object_store_bytes=int(props["object_store_mib"]) * 1024 * 1024,
        dashboard_port=int(props["dashboard_port"]),
        ray_version=props["ray_version"],
    )
    try:
        cluster = local_nodes.start(spec, say=say)
    except local_nodes.LocalClusterError as error:
        raise ReportedError(str(error)) from error
    if not engine_alive():
        local_nodes.stop(directory, say=lambda _line: None)
        raise ReportedError("the engine ended while the cluster started: it was stopped again")
    return {
        **props,
        "directory": str(directory),
        "cluster_id": cluster.cluster_id,
        "address": cluster.address,
        "token": cluster.token,
        "health": "running",
    }


class LocalRayCluster(Resource, module="infra", name="LocalRayCluster"):
    """The processes of one local Ray cluster; outlives the `pulumi` that starts it and ends with `destroy`."""

    address: pulumi.Output[str]
    token: pulumi.Output[str]
    health: pulumi.Output[str]

    def __init__(self, name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        outputs = dict.fromkeys(("directory", "cluster_id", "address", "token", "health"))
        secret = pulumi.ResourceOptions(additional_secret_outputs=["token"])
        super().__init__(
            LocalRayClusterProvider(), name, {**inputs, **outputs}, pulumi.ResourceOptions.merge(opts, secret)
        )


@dataclass(frozen=True, kw_only=True)
class LocalRayArgs:
    """Plain values all: a preview knows them."""

    worker_nodes: int
    trainers_per_node: int
    object_store_mib: int
    dashboard_port: int

    @classmethod
    def of(cls, settings: LocalSettings) -> "LocalRayArgs":
        return cls(
            worker_nodes=settings.worker_nodes,
            trainers_per_node=settings.trainers_per_node,
            object_store_mib=settings.object_store_mib,
            dashboard_port=settings.dashboard_port,
        )


class LocalRay(pulumi.ComponentResource):
    """A Ray head and its worker nodes on this machine; `head` is what the job needs of them."""

    head: RayHead

    def __init__(self, name: str, args: LocalRayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:LocalRay", name, None, opts)
        stack = pulumi.get_stack()
        cluster = LocalRayCluster(
            f"{name}-cluster",
            {
                "stack": stack,
                "worker_nodes": args.worker_nodes,
                "trainers_per_node": args.trainers_per_node,
                "object_store_mib": args.object_store_mib,
                "dashboard_port": args.dashboard_port,
                "ray_version": versions.RAY,
            },
            pulumi.ResourceOptions(parent=self),
        )
        self.head = RayHead(
            kind="local",
            namespace="",
            cluster_name=stack,
            ray_version=versions.RAY,
            spec_digest=digest_of(["local", args.worker_nodes, args.trainers_per_node, versions.RAY]),
            nodes=args.worker_nodes,
            accelerators_per_node=args.trainers_per_node,
            worker_resource=TRAINER,
            image=f"this machine (ray {versions.RAY}, torch {versions.TORCH}, requirements.lock {_lock_digest()[:12]})",
            address=cluster.address,
            token=cluster.token,
        )
        self.register_outputs({"address": cluster.address, "health": cluster.health})
