"""One real Ray cluster for the tests that only submit jobs to it."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import local_nodes, versions
from workload.head import Head


def local_spec(folder: Path, **changes: object) -> local_nodes.LocalClusterSpec:
    values: dict[str, object] = {
        "name": "test",
        "directory": folder,
        "worker_nodes": 2,
        "trainers_per_node": 2,
        "object_store_bytes": 100 * 1024 * 1024,
        "dashboard_port": 0,
        "ray_version": versions.RAY,
    }
    return local_nodes.LocalClusterSpec(**{**values, **changes})  # type: ignore[arg-type]


def head_of(cluster: local_nodes.LocalCluster, **changes: object) -> Head:
    values: dict[str, object] = {
        "kind": "local",
        "namespace": "",
        "cluster_name": "test",
        "ray_version": cluster.ray_version,
        "spec_digest": "digest",
        "nodes": 2,
        "accelerators_per_node": 2,
        "worker_resource": "trainer",
        "address": cluster.address,
        "token": cluster.token,
    }
    return Head(**{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def cluster() -> Iterator[local_nodes.LocalCluster]:
    folder = Path(tempfile.mkdtemp(prefix="rtefa-t")).resolve()
    try:
        yield local_nodes.start(local_spec(folder), say=print)
    finally:
        local_nodes.stop(folder, say=print)
        shutil.rmtree(folder, ignore_errors=True)
