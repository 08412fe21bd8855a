"""PURE: what a run cost, as far as its record tells."""

from collections.abc import Sequence

from report import reading
from report.markup import Html, joined
from report.parts import definitions, missing, per_run, section
from report.run import Run
from report.units import seconds, usd


def cost(runs: Sequence[Run]) -> Html:
    return section("cost", "Cost", per_run(runs, [_of_run(run) for run in runs]))


def spent(run: Run) -> float | None:
    """USD of the job's own time; a cluster also bills before and after it."""
    hourly, took = run.number("cost", "hourlyUsd"), run.seconds
    return None if hourly is None or took is None else hourly * took / 3600


def why_not(run: Run) -> str:
    if run.seconds is None and run.number("cost", "hourlyUsd") is not None:
        return run.missing("start or end of the job is not known")
    return run.missing("this record holds no price; the stack's output hourlyCostUsd has it where prices are known")


def _of_run(run: Run) -> Html:
    total, hourly = spent(run), run.number("cost", "hourlyUsd")
    took = run.seconds
    if total is None or hourly is None:
        known = definitions([("the job took", seconds(took))]) if took is not None else None
        return joined(known, missing(why_not(run)))
    said = (
        "this machine: nothing is billed"
        if reading.at(run.record, "cluster", "kind") == "local"
        else f"{usd(hourly)} an hour"
    )
    return definitions(
        [("price", said), ("the job took", seconds(took or 0.0)), ("cost of the job's time", usd(total))]
    )
