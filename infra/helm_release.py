"""PURE: Helm's records of one release, what an interrupted `up` leaves in them, and how it is put right.

Helm refuses to touch a release whose last record says that an operation is in progress, and holds no lock that would
tell a living operation from a dead one (helm#4558). A release of ours is named after the stack's namespace, and the
engine runs one operation of a stack at a time: whatever says "in progress" when an `up` begins was interrupted. Such a
record is marked failed, as Helm itself does at the end of what fails: both `install --replace` and `upgrade` go on from
there, no history is lost, and the objects that were made are adopted.
"""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

IN_PROGRESS = ("pending-install", "pending-upgrade", "pending-rollback", "uninstalling")
# From these Helm goes on by itself.
ENDED = ("failed", "uninstalled")
FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class ReleaseRecord:
    """One revision of a release, as its Secret's labels tell."""

    secret: str
    version: int
    status: str

    @classmethod
    def of(cls, name: str, labels: Mapping[str, str]) -> "ReleaseRecord":
        return cls(secret=name, version=int(labels.get("version", "0")), status=labels.get("status", ""))


def interrupted(records: Sequence[ReleaseRecord], *, in_state: bool) -> ReleaseRecord | None:
    """The record that keeps Helm from going on, or None.

    `in_state` tells whether the stack's state has the release. Where it has not, the engine is about to create it, and
    one that is deployed all the same (the engine died, its plugin finished) stands in the way like a pending one.
    """
    last = max(records, key=lambda record: record.version, default=None)
    if last is None or last.status in ENDED:
        return None
    return last if last.status in IN_PROGRESS or not in_state else None


def marked_failed(release: str) -> str:
    """A record's `release` data (base64 of base64 of gzip of JSON) with the status that an ended operation leaves."""
    content = _decoded(release)
    content["info"] = {
        **content["info"],
        "status": FAILED,
        "description": "interrupted; marked as failed by the next deployment",
    }
    packed = gzip.compress(json.dumps(content).encode(), mtime=0)
    return base64.b64encode(base64.b64encode(packed)).decode()


def manifest_of(release: str) -> str:
    """The YAML documents of what a record's release made."""
    return str(_decoded(release).get("manifest", ""))


def _decoded(release: str) -> dict[str, Any]:
    packed = base64.b64decode(base64.b64decode(release))
    if packed[:2] == b"\x1f\x8b":
        packed = gzip.decompress(packed)
    content: dict[str, Any] = json.loads(packed)
    return content
