"""PURE: what a verdict on the transport is."""

from dataclasses import dataclass
from typing import Literal

EXPECTATIONS = ("efa", "socket", "gloo")
Value = Literal["proven", "refuted", "unproven"]

# Raised whenever a verdict may come out differently, so that what passed under older rules is judged again.
RULES = 1


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is expected; hosts, ranks and interfaces per host only where they are to be checked.

    `gdr` demands GPUDirect RDMA of each channel between hosts: for instance types that have it.
    """

    expect: str
    hosts: int | None = None
    ranks: int | None = None
    nics: int | None = None
    gdr: bool = False


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Only `proven` passes a gate."""

    expect: str
    value: Value
    reasons: tuple[str, ...]

    @property
    def passes(self) -> bool:
        return self.value == "proven"
