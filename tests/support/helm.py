"""Helm's own records in a bed's cluster."""

from tools.bed import Bed


def releases(bed: Bed) -> dict[str, str]:
    """Helm's last word on each release, by the release's name."""
    found = bed.api.list("/api/v1/secrets?labelSelector=owner%3Dhelm")
    labels = sorted((secret["metadata"]["labels"] for secret in found), key=lambda labels: int(labels["version"]))
    return {label["name"]: label["status"] for label in labels}
