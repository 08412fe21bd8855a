"""PURE: how well the model learnt: training loss, held-out loss, the task's own figures."""

from collections.abc import Sequence

from report import curves, reading
from report.markup import Html, joined
from report.parts import data_of, figure, legend, look, missing, per_run, section, table
from report.run import NOT_RECORDED, Run
from report.units import plain

_PERCENT = ("accuracy", "match")


def learning(runs: Sequence[Run]) -> Html:
    return section("quality", "Model quality", _losses(runs), per_run(runs, [_evaluation(run) for run in runs]))


def training_losses(run: Run) -> list[curves.Point]:
    """By step; of a run without a record those that its log tells."""
    recorded = reading.pairs(run.facts, "losses")
    return sorted(recorded or ((float(step), loss) for step, loss in (run.log.losses if run.log else {}).items()))


def held_out_losses(run: Run) -> list[curves.Point]:
    """Before the first step, at those that `trainEvalEvery` asked for, and after the last."""
    before, after = run.number("evaluation", "lossBefore"), run.number("evaluation", "lossAfter")
    points = [(float(step), loss) for step, loss in (run.log.evaluations if run.log else {}).items()]
    steps = training_losses(run)
    if before is None and run.log:
        before = run.log.before
    if before is not None:
        points.append((0.0, before))
    if after is not None and steps:
        points.append((steps[-1][0], after))
    return sorted(points)


def _losses(runs: Sequence[Run]) -> Html:
    series, keys, gaps, tables = [], [], [], []
    for run in runs:
        steps, held_out = training_losses(run), held_out_losses(run)
        if not steps and not held_out:
            gaps.append(missing(run.tells(run.missing("no step told its loss"))))
            continue
        thin, each = curves.thinned(steps)
        series.append(curves.Series(name=f"training loss{run.suffix}", points=thin, look=look(run)))
        series.append(curves.Series(name=f"held-out loss{run.suffix}", points=held_out, look=look(run), marks=True))
        keys.append(
            (look(run), run.tells("training loss" + ("" if each == 1 else f", each point the median of {each} steps")))
        )
        keys.append((f"{look(run)} marks", run.tells("held-out loss")))
        if run.record and run.log is None:
            gaps.append(missing(run.tells(f"held-out losses between the first step and the last are {run.no_log}")))
        known = dict(held_out)
        rows = [[f"{x:.0f}", plain(y), plain(known[x]) if x in known else "-"] for x, y in steps]
        tables.append(
            data_of(f"Losses by step{run.suffix}", ["step", "training loss", "held-out loss"], rows, of=run.suffix)
        )
    if not series:
        return joined(gaps)
    chart = curves.Chart(
        identity="losses",
        title="Training and held-out loss",
        summary="; ".join(f"{one.name}: {curves.described(one.points)}" for one in series),
        x_title="optimizer step",
        y_title="loss, nats per token",
        series=series,
    )
    return joined(figure("Loss", curves.drawn(chart), legend(keys), tables), gaps)


def _evaluation(run: Run) -> Html:
    rows = []
    for words, before, after in (
        ("loss", "lossBefore", "lossAfter"),
        ("perplexity", "perplexityBefore", "perplexityAfter"),
    ):
        values = [run.number("evaluation", key) for key in (before, after)]
        if any(value is not None for value in values):
            rows.append([words, *("-" if value is None else plain(value) for value in values)])
    for name, pair in reading.mapping(run.facts, "evaluation", "metrics").items():
        rows.append(
            [
                str(name).replace("_", " "),
                *(_metric(str(name), reading.number(pair, key)) for key in ("before", "after")),
            ]
        )
    if not rows:
        return missing(run.missing("nothing was evaluated"))
    tokens = run.number("evaluation", "tokens")
    over = "" if tokens is None else f" of {tokens:,.0f} tokens"
    return table(f"Held-out evaluation{over}{run.suffix}", ["figure", "before", "after"], rows)


def _metric(name: str, value: float | None) -> str:
    if value is None:
        return NOT_RECORDED.removesuffix(" because ")
    return f"{value:.1%}" if name.endswith(_PERCENT) else plain(value)
