import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import local_nodes, versions


@pytest.fixture(scope="module")
def cluster() -> Iterator[local_nodes.LocalCluster]:
    """A head and two worker nodes with room for two ranks each."""
    folder = Path(tempfile.mkdtemp(prefix="rtefa-training")).resolve()
    spec = local_nodes.LocalClusterSpec(
        name="training",
        directory=folder,
        worker_nodes=2,
        trainers_per_node=2,
        object_store_bytes=100 * 1024 * 1024,
        dashboard_port=0,
        ray_version=versions.RAY,
    )
    try:
        yield local_nodes.start(spec, say=print)
    finally:
        local_nodes.stop(folder, say=print)
        shutil.rmtree(folder, ignore_errors=True)
