import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import local_nodes, versions
from tests.training.s3_server import BUCKET, S3Server, serving
from training.s3 import S3Folder
from training.storage import Folder, LocalFolder


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


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with serving() as server:
        yield server


@pytest.fixture(params=["directory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    """An empty folder of either kind."""
    if request.param == "directory":
        return LocalFolder(tmp_path)
    request.getfixturevalue("s3")
    return S3Folder(BUCKET, uuid.uuid4().hex)
