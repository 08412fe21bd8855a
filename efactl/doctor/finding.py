"""PURE: what a look at one thing came to, and how a list of such is shown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["ok", "warn", "fail"]
_COLOURS = {"ok": "32", "warn": "33", "fail": "31"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """`fix` says what to do about it; empty where there is nothing to do."""

    name: str
    level: Level
    what: str
    fix: str = ""


def ok(name: str, what: str) -> Finding:
    return Finding(name=name, level="ok", what=what)


def warn(name: str, what: str, fix: str = "") -> Finding:
    return Finding(name=name, level="warn", what=what, fix=fix)


def fail(name: str, what: str, fix: str) -> Finding:
    return Finding(name=name, level="fail", what=what, fix=fix)


def as_document(findings: Sequence[Finding], stack: str) -> Mapping[str, Any]:
    return {"stack": stack, "passed": passed(findings), "findings": [asdict(finding) for finding in findings]}


def passed(findings: Sequence[Finding]) -> bool:
    return not any(finding.level == "fail" for finding in findings)


def lines_of(findings: Sequence[Finding], *, colour: bool) -> Iterator[str]:
    """One line a finding, its fix on the next; at the end how many there were of each level."""
    width = max((len(finding.name) for finding in findings), default=0)
    for finding in findings:
        first, *rest = finding.what.splitlines() or [""]
        yield f"{_painted(finding.level, colour=colour)}  {finding.name:<{width}}  {first}".rstrip()
        indent = " " * (width + 8)
        yield from (f"{indent}{line.strip()}" for line in rest)
        if finding.fix:
            yield f"{indent}-> {finding.fix}"
    counts = [f"{sum(one.level == level for one in findings)} {level}" for level in _COLOURS]
    yield ", ".join(counts)


def _painted(level: Level, *, colour: bool) -> str:
    padded = f"{level:<4}"
    return f"\x1b[{_COLOURS[level]}m{padded}\x1b[0m" if colour else padded
