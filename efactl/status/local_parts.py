"""The nodes of a local Ray cluster, by its processes, and whether all of it is there."""

from pathlib import Path
from typing import Any

from infra import local_cluster, local_health, local_processes
from infra.local_cluster import LocalCluster, LocalNode


def nodes_part(directory: Path) -> list[dict[str, Any]]:
    """As on Kubernetes, where a machine has several; each is a Ray node of this one."""
    cluster = local_cluster.load(directory)
    return [_node(node) for node in cluster.nodes] if cluster else []


def _node(node: LocalNode) -> dict[str, Any]:
    gone = _gone(node)
    return {
        "name": node.name,
        "role": node.role,
        "pid": node.pid,
        # The others are of Ray's own: each node as a resource, and memory, of which nodes of one machine say the same.
        "resources": {name: node.resources[name] for name in sorted(node.resources) if _is_taken_by_ranks(name)},
        "ready": not gone,
        "note": f"gone: {', '.join(gone)}" if gone else None,
    }


def _is_taken_by_ranks(name: str) -> bool:
    return not name.startswith("node:") and not name.endswith("memory")


def _gone(node: LocalNode) -> list[str]:
    return [part for part, (pid, created) in node.processes.items() if not local_processes.is_alive(pid, created)]


def ray_cluster_part(directory: Path, *, name: str, workers: int) -> dict[str, Any]:
    """Its processes and its head's answer are the truth; nobody reports another."""
    cluster: LocalCluster | None = local_cluster.load(directory)
    health = local_health.inspect(directory)
    alive = [node.role for node in cluster.nodes if not _gone(node)] if cluster else []
    return {
        "name": name,
        "namespace": None,
        "reported": None,
        "headReady": "head" in alive,
        "workersReady": alive.count("worker"),
        "workersWanted": workers,
        "problem": None if health.state == "running" else "; ".join([health.state, *health.reasons]),
    }
