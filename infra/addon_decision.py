"""PURE: which add-ons a stack installs, from the settings and what the cluster has already."""

import hashlib
from dataclasses import dataclass

from infra.versions import Chart
from workload.errors import BadInputError

# Helm's own limit.
_LONGEST_RELEASE_NAME = 53


@dataclass(frozen=True, kw_only=True)
class AddonFound:
    """What a cluster has of an add-on. `release` is the Helm release it belongs to, empty where it has none; `ours`:
    that is this stack's own. `where` names the objects that were found, and is empty where none is.
    """

    present: bool
    ours: bool = False
    where: str = ""
    release: str = ""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether this stack installs an add-on, and why, in words for the reader."""

    install: bool
    reason: str


def release_name(namespace: str, chart: Chart) -> str:
    """The Helm release of a stack: its namespace is the one thing that no other stack of the cluster shares."""
    name = f"{namespace}-{chart.name}"
    if len(name) <= _LONGEST_RELEASE_NAME:
        return name
    digest = hashlib.sha256(namespace.encode()).hexdigest()[:6]
    room = _LONGEST_RELEASE_NAME - len(chart.name) - len(digest) - 2
    return f"{namespace[:room].rstrip('-')}-{digest}-{chart.name}"


def installs(mode: str, found: AddonFound | None) -> bool:
    """Whether a stack declares an add-on that it needs: on demand, or by itself where there is none but its own.

    A user who may not look for it cannot install it either: that counts as somebody else's.
    """
    if mode == "auto":
        return found is not None and (found.ours or not found.present)
    return mode == "install"


def decide(*, setting: str, mode: str, needed: str, found: AddonFound | None, release: str) -> Decision:
    """Whether to install one add-on as `release`.

    `needed` says what the workers have that needs it; empty means nothing does. `found` None means that this user may
    not look, and so could not install either. Raises BadInputError where the setting contradicts what the cluster has.
    """
    if not needed:
        return Decision(install=False, reason="the workers have nothing that needs it")
    ours = found is not None and found.ours
    if mode == "existing":
        if found is not None and not found.present:
            raise BadInputError(f"{setting} is existing, but the cluster has none for {needed}: set auto or install")
        if ours:
            raise BadInputError(
                f"{setting} is existing, but what the cluster has is this stack's own Helm release {release}, which "
                "would be removed: leave it at auto, or install one apart from this stack first"
            )
        return Decision(install=False, reason=f"{setting} is existing")
    return Decision(install=installs(mode, found), reason=_reason(setting, mode, needed, found))


def _reason(setting: str, mode: str, needed: str, found: AddonFound | None) -> str:
    if mode == "install":
        return f"{setting} is install"
    if found is None:
        return "this user may not look for it, so somebody else must have installed it"
    if found.ours:
        return "this stack installed it"
    if found.present:
        return f"the cluster has one ({f'Helm release {found.release}' if found.release else 'not made by Helm'})"
    return f"the cluster has none for {needed}"
