"""PURE: recorded runs as lines for readers: a table, one record, and its values."""

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workload.recorded_run import RecordedRun, at, number, text, texts

_HEAD = ("run", "started (UTC)", "stack", "platform", "transport", "quality", "tokens/s", "nodes", "ranks", "image")
QUALITY = {True: "passed", False: "failed", None: "not judged"}
_HEX = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,52}\b")
_LONGEST_VALUE = 90
_MOST_REASONS = 16


def rows(runs: Sequence[RecordedRun]) -> Iterator[str]:
    """A table; of a run without a usable record the reason in place of its figures."""
    table = [_HEAD, *(_row(run) for run in runs)]
    whole = [row for row, run in zip(table[1:], runs, strict=True) if not run.problem]
    widths = [max(len(row[column]) for row in (_HEAD, *whole)) for column in range(len(_HEAD))]
    widths[0], widths[1] = (max(len(row[column]) for row in table) for column in (0, 1))
    for row, notes in zip(table, [(), *(run.notes for run in runs)], strict=True):
        cells = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)).rstrip()
        yield f"{cells}  ({'; '.join(notes)})" if notes else cells


def _row(run: RecordedRun) -> Sequence[str]:
    known = (plain(run.short_id), minute(run.started))
    if run.problem:
        return (*known, run.problem)
    return (
        *known,
        run.stack or "-",
        run.platform or "-",
        f"{run.verdict or '-'} {run.expect or ''}".strip(),
        QUALITY[run.quality],
        figure(run.tokens_per_second),
        _nodes(run),
        counted(run.devices),
        image(run),
    )


def run_lines(run: RecordedRun, defaults: Mapping[str, str]) -> Iterator[str]:
    """One run's record, but for what is long or goes without saying; `defaults` are those of the settings."""
    record = run.record
    yield f"run {plain(run.id)}"
    yield f"  record     {plain(run.place)} ({shown(record.get('schema'))})"
    yield from (f"  note       {note}" for note in run.notes)
    length = f", {(run.ended - run.started).total_seconds():,.0f} s" if run.started and run.ended else ""
    yield f"  started    {minute(run.started)} UTC{length}"
    yield f"  stack      {run.stack or 'not on record'}, platform {run.platform or 'not on record'}"
    yield f"transport {run.verdict or 'not judged'}, expected {run.expect or '-'}"
    yield from (f"  {reason}" for reason in run.reasons[:_MOST_REASONS])
    if len(run.reasons) > _MOST_REASONS:
        yield f"  ... and {len(run.reasons) - _MOST_REASONS} more, with --json"
    yield f"quality {QUALITY[run.quality]}"
    yield from (f"  {shown(reason)}" for reason in texts(at(record, "quality", "reasons")))
    yield from _section("throughput", at(record, "throughput"))
    yield from _section("evaluation", at(record, "evaluation"))
    yield from _section("image", at(record, "image"))
    yield from _section("code", at(record, "code"))
    yield f"on {_nodes(run)}, ranks {counted(run.devices)}"
    for node in run.nodes:
        words = [shown(node.get(name)) for name in ("machine", "host", "instanceType", "zone") if text(node.get(name))]
        yield f"  ranks {shown(node.get('ranks'))}  {', '.join(words)}"
    yield from _section("versions", at(record, "versions"))
    yield from _section("data", at(record, "data"))
    yield from _section("model", at(record, "model"))
    yield from _section("arguments", at(record, "arguments"))
    yield from _section("runtime environment", at(record, "runtimeEnv"))
    settings = at(record, "settings")
    if isinstance(settings, Mapping):
        own = {name: value for name, value in settings.items() if str(value) != defaults.get(str(name))}
        yield from _section("settings other than the defaults of this checkout", own)
    yield from _section("timings", at(record, "timings"))


def _section(name: str, content: Any) -> Iterator[str]:
    if not isinstance(content, Mapping) or not content:
        return
    yield name
    rows = [(plain(name), value) for key, inner in content.items() for name, value in _entries(str(key), inner)]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        yield f"  {name:<{width}}  {shown(value)}"


def _entries(name: str, value: Any) -> list[tuple[str, Any]]:
    """One, or those of objects within the object."""
    if isinstance(value, Mapping) and any(isinstance(inner, Mapping) for inner in value.values()):
        return [(f"{name} {key}", inner) for key, inner in value.items()]
    return [(name, value)]


def _nodes(run: RecordedRun) -> str:
    types = run.node_types
    if list(types) == [""]:
        return f"{types['']} node{'s'[: types[''] > 1]}"
    return counted({name or "no type": count for name, count in types.items()})


def counted(counts: Mapping[str, int]) -> str:
    return " + ".join(f"{count} x {name}" for name, count in sorted(counts.items())) or "-"


def image(run: RecordedRun) -> str:
    """A short name: the last part with its tag, and the beginning of the digest."""
    name = (run.image or "-").partition(" (")[0].rpartition("/")[2].partition("@")[0]
    return " ".join([name, *(_HEX.sub(r"\1", digest) for digest in run.image_digests)])


def minute(moment: datetime.datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M}" if moment else "-"


def figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def shown(value: Any) -> str:
    """A record's value in one short line."""
    if value is None:
        return "-"
    if isinstance(value, float) and number(value) is not None:
        return f"{value:.6g}"
    if isinstance(value, Mapping) and value:
        told = ", ".join(f"{key} {shown(inner)}" for key, inner in value.items())
    else:
        told = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = _HEX.sub(r"\1...", plain(told)) or "''"
    return line if len(line) <= _LONGEST_VALUE else f"{line[:_LONGEST_VALUE]}..."


def plain(value: str) -> str:
    return text(value) or ""
