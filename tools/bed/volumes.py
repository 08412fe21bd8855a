"""Persistent volumes of the bed: folders that every node shares, as a network file system would be."""

from pathlib import Path
from typing import Any

STORAGE_CLASS = "bed"
COUNT = 64


def volumes(folder: Path) -> list[dict[str, Any]]:
    """The default storage class and its volumes, each to be claimed once; nothing provisions further ones."""
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/no-provisioner",
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "Immediate",
    }
    return [storage_class, *(_volume(folder / str(number), number) for number in range(1, COUNT + 1))]


def _volume(path: Path, number: int) -> dict[str, Any]:
    path.mkdir(parents=True)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"bed-{number}"},
        "spec": {
            "capacity": {"storage": "10Ti"},
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STORAGE_CLASS,
            "hostPath": {"path": str(path), "type": "Directory"},
        },
    }
