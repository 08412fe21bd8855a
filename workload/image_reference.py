"""PURE: a container image's reference taken apart, and what it stands for."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from workload.errors import BadInputError

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REFERENCE = re.compile(
    r"(?P<registry>[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9a-fA-F:]+\](:\d{1,5})?)/(?P<repository>[a-z0-9][a-z0-9._/-]*)"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True, kw_only=True)
class ImageReference:
    """`registry` is a host with or without a port. At least one of `tag` and `digest` is there."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.repository_name}{tag}{f'@{self.digest}' if self.digest else ''}"

    @property
    def repository_name(self) -> str:
        """With its registry: digests are of one such place."""
        return f"{self.registry}/{self.repository}"

    @property
    def on_loopback(self) -> bool:
        """Where every container runtime speaks plain HTTP to a registry."""
        host = self.registry.rpartition(":")[0] if re.search(r":\d+$", self.registry) else self.registry
        try:
            return ipaddress.ip_address(host.strip("[]")).is_loopback
        except ValueError:
            return host == "localhost"

    def pinned(self, digest: str) -> "ImageReference":
        """The same tag, for its readers, at one image."""
        return ImageReference(registry=self.registry, repository=self.repository, tag=self.tag, digest=digest)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """`platforms` are those of an index, by the digest of each one's manifest; empty for an image of one platform."""

    digest: str
    media_type: str = ""
    platforms: Mapping[str, str] = field(default_factory=dict)

    def is_image(self, digest: str) -> bool:
        """Whether that digest names it, or its manifest for one platform."""
        return digest == self.digest or digest in self.platforms


def parse(reference: str) -> ImageReference:
    """Raises BadInputError where no registry could be asked about it."""
    found = _REFERENCE.fullmatch(reference)
    host = found["registry"] if found else ""
    if found is None or not ("." in host or ":" in host or host == "localhost"):
        raise BadInputError(f"image '{reference}' names no registry: write it out as host/name:tag")
    tag, digest = found["tag"], found["digest"]
    return ImageReference(
        registry=host,
        repository=found["repository"],
        tag=tag or (None if digest else "latest"),
        digest=digest,
    )
