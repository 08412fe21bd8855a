"""Ray's worker pods: where they stand in a RayCluster, and what they ask for."""

from collections.abc import Iterator, Mapping
from typing import Any

from .resources import RAY_CLUSTER, UNKNOWN, Resource, ResourceRule, at, mapping, mappings


def worker_pods(cluster: Resource) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each worker group's name and pod spec."""
    for group in mappings(at(cluster.props, "spec", "workerGroupSpecs")):
        yield str(group.get("groupName")), mapping(at(group, "template", "spec"))


def worker_containers(cluster: Resource) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each container of worker pods, with the words for where it is."""
    for name, pod in worker_pods(cluster):
        for container in mappings(pod.get("containers")):
            yield f"container {container.get('name')} of worker group {name}", container


def requests_are_limits(cluster: Resource) -> Iterator[str]:
    for where, container in worker_containers(cluster):
        resources = container.get("resources")
        if resources is UNKNOWN:
            continue
        requests, limits = mapping(at(resources, "requests")), mapping(at(resources, "limits"))
        unequal = sorted(name for name in {*requests, *limits} if requests.get(name) != limits.get(name))
        lacking = [name for name in ("cpu", "memory") if name not in limits]
        if unequal or lacking:
            pairs = [f"{name} {requests.get(name, 'none')} / {limits.get(name, 'none')}" for name in unequal]
            yield (
                f"{where} has requests other than its limits ({', '.join(pairs or lacking)}): set both to the same "
                "amounts of cpu, memory and devices, so that it is never throttled by or killed for a neighbour"
            )


RESOURCE_RULES = (
    ResourceRule(
        name="worker-requests-are-limits",
        description="Ray's workers get exactly what they ask for (quality of service Guaranteed).",
        types=(RAY_CLUSTER,),
        check=requests_are_limits,
    ),
)
