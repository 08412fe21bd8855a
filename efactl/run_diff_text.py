"""PURE: what separates two recorded runs, as lines for readers."""

from collections.abc import Iterator, Sequence
from typing import Any

from efactl.runs_text import QUALITY, figure, minute, plain, shown
from workload.comparison_report import in_words
from workload.ratio import Ratio
from workload.recorded_run import RecordedRun, at, texts
from workload.run_diff import Difference, RunDiff
from workload.run_facts import CODE, KINDS
from workload.run_movement import Movement

# Figures that are told where they moved.
_QUIET = frozenset({"tokens a step", "cost an hour"})


def diff_lines(
    a: RecordedRun, b: RecordedRun, diff: RunDiff, moved: Sequence[Movement], losses: int | None
) -> Iterator[str]:
    """`losses` as `run_movement.first_different_step` has it."""
    for side, run in (("A", a), ("B", b)):
        where = f"stack {run.stack}" if run.stack else f"platform {run.platform or '-'}"
        yield f"{side}  {plain(run.id)}  {minute(run.started)}  {where}"
    yield from (f"note: {note}" for note in diff.notes)
    yield ""
    yield diff.conclusion
    yield from _differences(diff)
    same = diff.same
    yield f"the same: {', '.join(same)} ({len(same)} of {len(KINDS)} kinds)" if same else "no kind is the same"
    yield "not listed: what is new with every run (ids, times, sessions, processes, hosts, machines)"
    yield ""
    yield from _moved(moved)
    yield _losses(losses)
    yield f"transport: {_judged(a)} -> {_judged(b)}{_first(b.reasons) if _judged(a) != _judged(b) else ''}"
    failures = [shown(reason) for reason in texts(at(b.record, "quality", "reasons"))]
    reasons = _first(failures) if a.quality != b.quality else ""
    yield f"quality: {QUALITY[a.quality]} -> {QUALITY[b.quality]}{reasons}"
    speed = moved[0] if moved and moved[0].name == "tokens/s" else None
    if speed is not None and speed.noise is not None:
        noise = speed.noise
        ratio = Ratio(value=noise.value, low=noise.low, high=noise.high, pairs=())
        yield f"speed: {in_words(ratio, 'B', 'A')}; noise from {noise.source}"
        if noise.source.startswith("step"):
            yield "  what differs from run to run is not in it: repeat both (jobRunId), or `efactl compare`"
    elif speed is not None and speed.ratio is not None:
        yield "speed: the records hold no noise to measure the ratio by: repeat both runs (jobRunId)"


def _differences(diff: RunDiff) -> Iterator[str]:
    """By kind; of what came with other code, and of what is aside, only the places."""
    for kind in KINDS:
        of_kind = [one for one in diff.differences if one.kind == kind and one.role != "aside"]
        came = [one for one in of_kind if one.because == CODE]
        if of_kind:
            yield f"  {kind}"
        for one in of_kind:
            if one not in came:
                sides = f"{_side(one, one.a, there=one.in_a)} -> {_side(one, one.b, there=one.in_b)}"
                yield f"    {plain(one.path)}: {sides}{_role(one)}"
        if came:
            yield f"    only one version of the code has: {', '.join(_last(one) for one in came)}"
    aside = [one for one in diff.differences if one.role == "aside"]
    if both := [plain(one.path) for one in aside if one.in_a and one.in_b]:
        yield f"  differs, but moves no run: {', '.join(both)}"
    if count := sum(not (one.in_a and one.in_b) for one in aside):
        yield f"  on record on one side alone: {count} setting{'s'[: count > 1]} of one version of the project"


def _last(one: Difference) -> str:
    return plain(one.path).rpartition(".")[2]


def _role(one: Difference) -> str:
    if one.role == "follows":
        return f"  (follows from the {one.because})"
    return "  (may differ)" if one.role == "unknown" else ""


def _side(one: Difference, value: Any, *, there: bool) -> str:
    if not there:
        return "absent"
    return "not on record" if value is None and one.role == "unknown" else shown(value)


def _moved(moved: Sequence[Movement]) -> Iterator[str]:
    head = ("what moved", "A", "B", "B / A")
    told = [one for one in moved if one.name not in _QUIET or one.a != one.b]
    table = [head, *((one.name, _figure(one, one.a), _figure(one, one.b), _ratio(one.ratio)) for one in told)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for name, *cells in table:
        yield "  ".join(
            [f"{name:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(cells, widths[1:], strict=True))]
        ).rstrip()


def _figure(movement: Movement, value: float | None) -> str:
    if movement.unit == "bytes" and value is not None:
        return f"{value / (1 << 20):,.0f} MiB"
    return f"{figure(value)} {movement.unit}".rstrip() if value is not None else "-"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _losses(step: int | None) -> str:
    if step is None:
        return "losses: the same to the last bit at every step that both have"
    return f"losses: differ from step {step} on" if step else "losses: no step that both have"


def _judged(run: RecordedRun) -> str:
    return f"{run.verdict or 'not judged'} ({run.expect or '-'})"


def _first(reasons: Sequence[str]) -> str:
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f": {reasons[0]}{more}" if reasons else ""
