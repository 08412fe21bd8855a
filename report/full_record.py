"""PURE: a whole record for reading: indented, but what holds nothing further in one line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from report.markup import Html, joined, tag
from report.parts import missing, section
from report.run import Run

_INLINE = 100


def full_record(runs: Sequence[Run]) -> Html:
    return section("record", "Full record", [_of_run(run) for run in runs])


def lines(value: Any, indent: int = 0, before: str = "", after: str = "") -> Iterator[str]:
    space = "  " * indent
    flat = json.dumps(value, ensure_ascii=False, default=str)
    if not isinstance(value, Mapping | list) or not value or (len(flat) <= _INLINE and not _nested(value)):
        yield f"{space}{before}{flat}{after}"
        return
    opening, closing = ("{", "}") if isinstance(value, Mapping) else ("[", "]")
    yield f"{space}{before}{opening}"
    entries = list(value.items()) if isinstance(value, Mapping) else [(None, one) for one in value]
    for number, (key, one) in enumerate(entries):
        comma = "," if number < len(entries) - 1 else ""
        yield from lines(one, indent + 1, "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: ", comma)
    yield f"{space}{closing}{after}"


def _of_run(run: Run) -> Html:
    named = f", run {run.label}" if run.label else ""
    if run.record:
        return _folded(f"The record as it is{named}", "\n".join(lines(run.record)))
    reported = run.log.failed if run.log else None
    said = missing(run.missing(""))
    error = _folded(f"The error as it is{named}", run.error) if run.error else None
    return joined(
        said, error, _folded(f"What the failed job reported{named}", "\n".join(lines(reported))) if reported else None
    )


def _folded(words: str, content: str) -> Html:
    return tag("details", tag("summary", words), tag("pre", content, tabindex=0), class_="record")


def _nested(value: Any) -> bool:
    parts = value.values() if isinstance(value, Mapping) else value
    return any(isinstance(part, Mapping | list) and part for part in parts) and isinstance(value, Mapping)
