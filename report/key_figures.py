"""PURE: the figures that a reader looks for first; of two runs beside each other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from report.cost import spent, why_not
from report.markup import Html, joined, tag
from report.memory import peaks
from report.parts import missing, section, table
from report.run import Run
from report.speed import mfu
from report.units import change, plain, seconds, share, size, usd

# Of one run it is at the top of the page.
_JOB = "Job"

Show = Callable[[float], str]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """`value` is None where it is not known, for `note`."""

    name: str
    value: float | None
    told: str
    note: str = ""


def key_figures(runs: Sequence[Run]) -> Html:
    of_each = [figures(run) for run in runs]
    if len(runs) == 1:
        return section(
            "figures", "Key figures", tag("dl", [_tile(one) for one in of_each[0] if one.name != _JOB], class_="tiles")
        )
    rows: list[list[str | Html]] = []
    marked = []
    for first, second in zip(*of_each, strict=True):
        both = first.value is not None and second.value is not None
        moved = change(first.value or 0.0, second.value or 0.0) if both else "not known"
        rows.append([first.name, _cell(first), _cell(second), moved])
        marked.append(both and first.value != second.value)
    head = ["figure", *(run.named for run in runs), "B against A"]
    gaps = [missing(run.tells(gap)) for run, each in zip(runs, of_each, strict=True) for gap in _gaps(each)]
    return section(
        "figures",
        "Key figures",
        table("Both runs' figures, and how much B differs from A", head, rows, marked=marked, class_="compared"),
        gaps,
    )


def figures(run: Run) -> list[Figure]:
    speed, step = run.number("throughput", "tokensPerSecond"), run.number("throughput", "stepSeconds", "median")
    p90, used = run.number("throughput", "stepSeconds", "p90"), run.number("throughput", "mfu")
    before, after = run.number("evaluation", "lossBefore"), run.number("evaluation", "lossAfter")
    peak, total, took = max(peaks(run).values(), default=None), spent(run), run.seconds
    return [
        _figure("Tokens per second", speed, plain, "median over all ranks", run.missing("no step was timed")),
        _figure(
            "Step time",
            step,
            seconds,
            "median" if p90 is None else f"median; 90th percentile {seconds(p90)}",
            run.missing("no step was timed"),
        ),
        _figure("Model FLOPs utilization", used, share, "of the GPU's peak", mfu(run)),
        _figure("Peak memory", peak, size, "of the rank that took most", run.missing("no rank told its peak")),
        _figure(
            "Held-out loss",
            after,
            plain,
            "after training" if before is None else f"after training; {plain(before)} before",
            run.missing("nothing was evaluated after training"),
        ),
        _figure(_JOB, took, seconds, "from its start to its end", run.missing("start or end is not known")),
        _figure("Cost", total, usd, f"of the job's own {seconds(took or 0.0)}", why_not(run)),
    ]


def _gaps(of_run: Sequence[Figure]) -> list[str]:
    """One sentence for all that are not known for the same reason."""
    by_reason: dict[str, list[str]] = {}
    for one in of_run:
        if one.value is None:
            by_reason.setdefault(one.note, []).append(one.name[:1].lower() + one.name[1:])
    return [f"{', '.join(names)}: {why}" for why, names in by_reason.items()]


def _figure(name: str, value: float | None, show: Show, note: str, why: str) -> Figure:
    return Figure(
        name=name, value=value, told="" if value is None else show(value), note=why if value is None else note
    )


def _tile(one: Figure) -> Html:
    told = (
        tag("span", one.told, class_="value")
        if one.value is not None
        else tag("span", "not known", class_="value unknown")
    )
    return tag("div", tag("dt", one.name), tag("dd", told, tag("span", one.note, class_="note")))


def _cell(one: Figure) -> Html:
    if one.value is None:
        return tag("span", "not known", class_="none")
    return joined(tag("span", one.told), tag("span", one.note, class_="note"))
