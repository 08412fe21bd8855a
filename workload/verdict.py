"""PURE: what a verdict on the transport is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

EXPECTATIONS = ("efa", "socket", "gloo")
Value = Literal["proven", "refuted", "unproven"]

# Raised whenever a verdict may come out differently, so that what passed under older rules is judged again.
RULES = 2


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is expected; hosts, ranks and interfaces per host only where they are to be checked.

    `nics` is the least that each host must have found. `gdr` demands GPUDirect RDMA of each channel between hosts: for
    instance types that have it.
    """

    expect: str
    hosts: int | None = None
    ranks: int | None = None
    nics: int | None = None
    gdr: bool = False


def wanted_of(props: Mapping[str, Any]) -> Wanted:
    """From a resource's `expect`, `nics` and `gdr`, as the engine hands them back; old states have the first alone."""
    nics = props.get("nics")
    return Wanted(expect=props["expect"], nics=None if nics is None else int(nics), gdr=bool(props.get("gdr")))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Only `proven` passes a gate."""

    expect: str
    value: Value
    reasons: tuple[str, ...]

    @property
    def passes(self) -> bool:
        return self.value == "proven"


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Of one look at the evidence: what speaks against the expectation, what is missing, and what is seen."""

    against: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()


def concluded(expect: str, findings: Iterable[Findings]) -> Verdict:
    """What speaks against wins over what is missing; the reasons are those of the value alone."""
    every = list(findings)
    if against := [reason for one in every for reason in one.against]:
        return Verdict(expect=expect, value="refuted", reasons=tuple(against))
    if missing := [reason for one in every for reason in one.missing]:
        return Verdict(expect=expect, value="unproven", reasons=tuple(missing))
    return Verdict(expect=expect, value="proven", reasons=tuple(reason for one in every for reason in one.seen))
