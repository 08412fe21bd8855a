"""What a local cluster needs of this machine: memory, shared memory, disk, its port; or that it runs already."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from efactl.doctor.finding import Finding, fail, ok
from efactl.doctor.subject import Subject

if TYPE_CHECKING:
    from infra.settings import Settings


def local_cluster(subject: Subject, settings: "Settings") -> Iterator[Finding]:
    from infra import local_checks, local_nodes, versions

    try:
        directory = local_nodes.cluster_directory(subject.folder, subject.stack)
        running = local_nodes.load(directory)
        if running is not None and local_nodes.inspect(directory).state == "running":
            yield ok("local cluster", f"runs at {running.address}")
            return
        spec = local_nodes.LocalClusterSpec(
            name=subject.stack,
            # Not made yet, perhaps; it is on the same disk.
            directory=directory if directory.exists() else directory.parent,
            worker_nodes=settings.local.worker_nodes,
            trainers_per_node=settings.local.trainers_per_node,
            object_store_bytes=settings.local.object_store_mib * 1024**2,
            dashboard_port=settings.local.dashboard_port,
            ray_version=versions.RAY,
        )
        local_checks.check(spec)
    except local_nodes.LocalClusterError as error:
        yield fail("local cluster", str(error), "as it says")
        return
    needed = local_checks.memory_needed(spec) / 1024**3
    port = f", port {spec.dashboard_port} is free" if spec.dashboard_port else ""
    yield ok("local cluster", f"needs {needed:.1f} GiB, {local_checks.memory_available() / 1024**3:.1f} are free{port}")
