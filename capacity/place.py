"""PURE: a place where GPU nodes can stand."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, order=True)
class Place:
    """A zone of a region. Names of zones differ between accounts, ids do not: `zone` is this account's."""

    region: str
    zone: str
    zone_id: str
