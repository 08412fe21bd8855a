"""PURE: where a RayCluster is no longer what was declared, and who changed it."""

from collections.abc import Sequence

from infra.kubernetes_objects import Object
from infra.ray_cluster_spec import HEAD_CONTAINER, WORKER_CONTAINER, WORKER_GROUP

# The engine's own provider; its fields are the declaration.
OURS = "pulumi"


def drift(cluster: Object, *, image: str, workers: int, ray_version: str) -> list[str]:
    """One sentence for each field that differs: what it is, what was declared, who wrote it last."""
    spec = cluster["spec"]
    head = ("headGroupSpec", "template", "spec", "containers")
    found: list[tuple[str, object, object, Sequence[str]]] = [
        ("spec.suspend", spec.get("suspend", False), False, ("suspend",)),
        ("spec.rayVersion", spec.get("rayVersion"), ray_version, ("rayVersion",)),
        ("the image of the head", _image(spec.get("headGroupSpec", {}), HEAD_CONTAINER), image, head),
    ]
    group = next((one for one in spec.get("workerGroupSpecs", []) if one.get("groupName") == WORKER_GROUP), None)
    if group is None:
        found.append((f"worker group {WORKER_GROUP}", "missing", "present", ("workerGroupSpecs",)))
    else:
        found += [
            (f"{field} of group {WORKER_GROUP}", group.get(field), workers, ("workerGroupSpecs",))
            for field in ("replicas", "minReplicas", "maxReplicas")
        ]
        found.append(("the image of the workers", _image(group, WORKER_CONTAINER), image, ("workerGroupSpecs",)))
    return [
        f"{what} is {is_now} instead of {declared}{_by_whom(cluster, path)}"
        for what, is_now, declared, path in found
        if is_now != declared
    ]


def _image(group: Object, container: str) -> object:
    containers = group.get("template", {}).get("spec", {}).get("containers", [])
    return next((one.get("image") for one in containers if one["name"] == container), None)


def _by_whom(cluster: Object, path: Sequence[str]) -> str:
    writers = [
        entry
        for entry in cluster["metadata"].get("managedFields", [])
        if entry.get("subresource") != "status" and _owns(entry.get("fieldsV1", {}), ("spec", *path))
    ]
    others = [entry for entry in writers if not str(entry.get("manager", "")).startswith(OURS)]
    if not others:
        return ""
    last = max(others, key=lambda entry: str(entry.get("time", "")))
    return f" (changed by {last['manager']} at {last.get('time', 'an unknown time')})"


def _owns(fields: Object, path: Sequence[str]) -> bool:
    """Whether a manager's field set holds the path; a leaf on the way stands for all below it."""
    for step in path:
        if f"f:{step}" not in fields:
            return False
        fields = fields[f"f:{step}"]
        if not fields:
            return True
    return True
