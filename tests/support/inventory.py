"""Everything that a cluster holds, by name: what a stack leaves behind is the difference."""

from tools.bed import Bed

# What Kubernetes writes of its own accord, and removes when it likes; each API group of a kind is an apiservice.
PASSING = {"apiservices", "events", "leases", "endpointslices", "endpoints", "controllerrevisions"}

# One in every namespace, as soon as the controller manager gets to it.
ROOT_CERTIFICATE = "kube-root-ca.crt"


def inventory(bed: Bed) -> set[str]:
    """'resource namespace/name' of every object of every kind that the API server can list."""
    groups = [f"/apis/{group['preferredVersion']['groupVersion']}" for group in bed.api.get("/apis")["groups"]]
    found = set()
    for path in ("/api/v1", *groups):
        for resource in bed.api.get(path)["resources"]:
            name = resource["name"]
            if "list" not in resource["verbs"] or "/" in name or name in PASSING:
                continue
            for item in bed.api.list(f"{path}/{name}"):
                metadata = item["metadata"]
                if metadata["name"] == ROOT_CERTIFICATE:
                    continue
                found.add(f"{name} {metadata.get('namespace', '')}/{metadata['name']}")
    return found
