"""PURE: what exactly ran, fact by fact; of two runs which facts differ."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from report import reading
from report.markup import Html, joined, tag
from report.parts import counted, definitions, missing, section, table
from report.run import Run
from workload.counting_attempt import counting_attempt

_NONE = "not recorded"
# Another in every run, and what a page calls it.
_OF_EACH_RUN = ("run_id",)
_GROUPS = {
    "image": "image",
    "code": "code",
    "cluster": "cluster",
    "versions": "version",
    "arguments": "argument",
    "runtimeEnv": "runtime environment",
    "data": "data",
    "model": "model",
    "settings": "setting",
}

_MANY = ("argument", "setting")


def what_ran(runs: Sequence[Run], findings: Sequence[str] = ()) -> Html:
    """`findings`: sentences by whoever knows more of how two runs differ; they come first."""
    said = tag("ul", [tag("li", one) for one in findings], class_="reasons") if findings else None
    each = [facts(run) for run in runs]
    if not any(each):
        return section("what-ran", "What ran", said, missing(runs[0].missing("")))
    names = list(dict.fromkeys(name for one in each for name in one))
    rows = [(name, [one.get(name, _NONE) for one in each]) for name in names]
    if len(runs) == 1:
        return section("what-ran", "What ran", said, _groups(rows))
    differing = [(name, values) for name, values in rows if values[0] != values[1]]
    same = [(name, values[:1]) for name, values in rows if values[0] == values[1]]
    return section("what-ran", "What ran", said, _differing(runs, differing), _same(same))


def facts(run: Run) -> dict[str, str]:
    """By name, `group: key`."""
    found: dict[str, str] = {}
    for group, word in _GROUPS.items():
        for key, value in reading.mapping(run.facts, group).items():
            if key not in _OF_EACH_RUN and not (group == "cluster" and key in ("nodes", "session")):
                found[f"{word}: {key}"] = _told(value)
    for key in ("instanceType", "zone", "machine"):
        values = sorted({str(node[key]) for node in reading.mappings(run.facts, "cluster", "nodes") if node.get(key)})
        if values:
            found[f"nodes: {key}"] = ", ".join(values)
    ranks = reading.mappings(counting_attempt(reading.mappings(run.facts, "attempts")), "ranks")
    for key, word in (("device_name", "device"), ("driver", "driver"), ("driver_version", "driver")):
        if values := sorted({str(rank[key]) for rank in ranks if rank.get(key)}):
            found[f"nodes: {word}"] = ", ".join(values)
    if checkpoint := reading.at(run.facts, "checkpoint"):
        found["result: checkpoint"] = str(checkpoint)
    return found


def _groups(rows: Sequence[tuple[str, Sequence[str]]]) -> Html:
    """Those that are many are folded away."""
    folded = {word: [row for row in rows if row[0].startswith(f"{word}: ")] for word in _MANY}
    shown = [row for row in rows if not row[0].startswith(tuple(f"{word}: " for word in _MANY))]
    return joined(
        definitions([(name, _value(values[0])) for name, values in shown]),
        [
            tag("details", tag("summary", counted(len(some), word)), _plain(f"{word.capitalize()}s of the run", some))
            for word, some in folded.items()
            if some
        ],
    )


def _differing(runs: Sequence[Run], rows: Sequence[tuple[str, Sequence[str]]]) -> Html:
    """Those that both records hold; then, folded away, those that only one does, of another version or unfinished."""
    both = [row for row in rows if _NONE not in row[1]]
    one = [row for row in rows if row not in both]
    said = (
        _compared(runs, both, f"{counted(len(both), 'fact')} of what ran {'differs' if len(both) == 1 else 'differ'}")
        if both
        else tag("p", "Nothing that both records hold of what ran differs.")
    )
    if not one:
        return said
    words = f"{counted(len(one), 'fact')} on record of one run only"
    return joined(said, tag("details", tag("summary", words), _compared(runs, one, words)))


def _compared(runs: Sequence[Run], rows: Sequence[tuple[str, Sequence[str]]], caption: str) -> Html:
    cells: list[list[str | Html]] = [
        [name, *map(_value, values), tag("span", _flag(runs, values), class_="flag")] for name, values in rows
    ]
    head = ["fact", *(run.named for run in runs), "compared"]
    return table(caption, head, cells, numbers=False, marked=[True] * len(rows), class_="facts compared")


def _flag(runs: Sequence[Run], values: Sequence[str]) -> str:
    known = [run.label for run, value in zip(runs, values, strict=True) if value != _NONE]
    return "differs" if len(known) == len(runs) else f"only in {known[0]}"


def _same(rows: Sequence[tuple[str, Sequence[str]]]) -> Html | None:
    if not rows:
        return None
    return tag(
        "details",
        tag("summary", f"{counted(len(rows), 'fact')} the same in both"),
        _plain("The same in both runs", rows),
    )


def _plain(caption: str, rows: Sequence[tuple[str, Sequence[str]]]) -> Html:
    return table(
        caption,
        ["fact", "value"],
        [[name, _value(values[0])] for name, values in rows],
        numbers=False,
        class_="facts plain",
    )


def _value(value: str) -> Html:
    return tag("span", value, class_="none") if value == _NONE else tag("code", value)


def _told(value: Any) -> str:
    if value is None:
        return _NONE
    if isinstance(value, str):
        return value or "(empty)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping | Sequence):
        return json.dumps(value, ensure_ascii=False, default=str) if value else "(none)"
    return str(value)
