"""What a local cluster is: what is asked for, what was started, and the record of it in its directory."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from infra import local_directory


class LocalClusterError(Exception):
    """The local cluster can't be started or stopped; the message says what is wrong and what to do."""


@dataclass(frozen=True, kw_only=True)
class LocalClusterSpec:
    """What to start. `object_store_bytes` is each node's; dashboard_port 0 is any free port.

    `dashboard_ui` adds the browser pages: seven more processes, about 8 s more CPU at the start.
    `token`: the one to use; without it the one in the directory, or a new one.
    """

    name: str
    directory: Path
    worker_nodes: int
    trainers_per_node: int
    object_store_bytes: int
    dashboard_port: int
    ray_version: str
    dashboard_ui: bool = False
    start_seconds: float = field(default=180.0, compare=False)
    token: str | None = field(default=None, repr=False, compare=False)

    def stored(self) -> dict[str, Any]:
        """The compared fields as JSON values: equal for two specs that ask for the same cluster."""
        compared = {one.name for one in fields(self) if one.compare}
        plain = {name: value for name, value in asdict(self).items() if name in compared}
        return {**plain, "directory": str(self.directory)}


@dataclass(frozen=True, kw_only=True)
class Order:
    """What the launcher is told, as one line of JSON; `keep_token`: the token outlives a start that fails."""

    directory: str
    name: str
    worker_nodes: int
    trainers_per_node: int
    object_store_bytes: int
    dashboard_port: int
    dashboard_ui: bool
    keep_token: bool

    @classmethod
    def of(cls, spec: LocalClusterSpec, *, keep_token: bool) -> "Order":
        return cls(
            directory=str(spec.directory),
            name=spec.name,
            worker_nodes=spec.worker_nodes,
            trainers_per_node=spec.trainers_per_node,
            object_store_bytes=spec.object_store_bytes,
            dashboard_port=spec.dashboard_port,
            dashboard_ui=spec.dashboard_ui,
            keep_token=keep_token,
        )


@dataclass(frozen=True, kw_only=True)
class LocalNode:
    """One Ray node; `pid` is its raylet's, `processes` the (pid, create time) of each process Ray started for it."""

    role: Literal["head", "worker"]
    name: str
    node_id: str
    temp_dir: str
    pid: int
    resources: Mapping[str, float]
    processes: Mapping[str, tuple[int, float]]


@dataclass(frozen=True, kw_only=True)
class LocalCluster:
    """A started cluster: `address` is the Jobs API's URL; `timings` are seconds since the start began."""

    cluster_id: str
    address: str
    gcs_address: str
    token: str = field(repr=False)
    token_path: str
    ray_version: str
    session_name: str
    nodes: tuple[LocalNode, ...]
    timings: Mapping[str, float]


def load(directory: Path) -> LocalCluster | None:
    """The cluster that was started in the directory, alive or not; None where there is none."""
    state = local_directory.read_state(directory)
    token = local_directory.read_token(directory)
    if state is None or token is None:
        return None
    return LocalCluster(
        cluster_id=state["cluster_id"],
        address=state["address"],
        gcs_address=state["gcs_address"],
        token=token,
        token_path=str(local_directory.token_path(directory)),
        ray_version=state["spec"]["ray_version"],
        session_name=state["session_name"],
        nodes=tuple(_node(record) for record in state["nodes"]),
        timings=state["timings"],
    )


def _node(record: Mapping[str, Any]) -> LocalNode:
    return LocalNode(
        role=record["role"],
        name=record["name"],
        node_id=record["node_id"],
        temp_dir=record["temp_dir"],
        pid=record["processes"]["raylet"][0],
        resources=record["resources"],
        processes={name: (pid, created) for name, (pid, created) in record["processes"].items()},
    )
