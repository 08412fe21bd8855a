"""PURE: how fast a run was: tokens/s of each step, and where a step's time went."""

from collections.abc import Sequence

from report import bars, curves, reading
from report.markup import Html, joined
from report.parts import data_of, definitions, figure, legend, look, missing, per_run, section, table
from report.run import NOT_RECORDED, Run
from report.units import plain, seconds, share

_PARTS = {
    "input": "waiting for input",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "gpu_waited": "GPU had nothing to do",
}
_SPLIT_NOTE = (
    "Rank 0's own view, steps after the first three: bars are medians, thin lines reach the 90th percentile. "
    "Forward, backward and optimizer include waits for other ranks."
)


def speed(runs: Sequence[Run]) -> Html:
    return section("speed", "Speed", _tokens(runs), _split(runs), _profile(runs))


def _tokens(runs: Sequence[Run]) -> Html:
    drawn, gaps, keys, tables = [], [], [], []
    each = 1
    for run in runs:
        points = sorted((float(step), speed) for step, speed in (run.log.tokens_per_second if run.log else {}).items())
        if not points:
            gaps.append(missing(run.tells(_no_steps(run))))
            continue
        thin, each = curves.thinned(points)
        drawn.append(curves.Series(name=run.named, points=thin, look=look(run)))
        keys.append((look(run), run.tells(f"each step; median {_median(run)}")))
        tables.append(
            data_of(
                f"Tokens/s by step{run.suffix}",
                ["step", "tokens/s"],
                [[f"{x:.0f}", plain(y)] for x, y in points],
                of=run.suffix,
            )
        )
    if not drawn:
        return joined(gaps)
    chart = curves.Chart(
        identity="tokens",
        title="Tokens per second of each step",
        summary="; ".join(f"{one.name}: {curves.described(one.points)}" for one in drawn),
        x_title="optimizer step",
        y_title="tokens/s, all ranks",
        series=drawn,
        from_zero=True,
    )
    note = "" if each == 1 else f"Each point is the median of {each} steps."
    return joined(figure("Tokens per second", curves.drawn(chart), legend(keys), tables, note=note), gaps)


def _no_steps(run: Run) -> str:
    if run.log is None:
        return run.no_log
    return run.missing("the job's log holds no line of a step")


def _median(run: Run) -> str:
    value = run.number("throughput", "tokensPerSecond")
    return "not recorded" if value is None else f"{plain(value)} tokens/s"


def _split(runs: Sequence[Run]) -> Html:
    rows: list[bars.Bar] = []
    gaps = []
    cells: list[list[str]] = []
    steps = {run.label: reading.mapping(run.facts, "throughput", "stepSeconds") for run in runs}
    for run in runs:
        if not _spreads(run):
            gaps.append(missing(run.tells(run.older("throughput", "splitSeconds", why="no part of a step was timed"))))
    for part, words in {"": "whole step", **_PARTS, **_further(runs)}.items():
        for run in runs:
            spread = _spreads(run).get(part) if part else steps[run.label]
            median = reading.number(spread, "median")
            if median is None or median < 0:
                continue
            p90 = reading.number(spread, "p90")
            name = f"{words} {run.label}".strip()
            rows.append(
                bars.Bar(
                    label=name,
                    value=median * 1000,
                    told=seconds(median),
                    look=look(run),
                    joins=run is not runs[0] and bool(rows),
                    until=None if p90 is None else p90 * 1000,
                )
            )
            cells.append([name, seconds(median), "-" if p90 is None else seconds(p90)])
    if not rows:
        return joined(gaps)
    chart = bars.Bars(
        identity="split",
        title="Where a step's time goes",
        summary="; ".join(f"{name}: median {median}" for name, median, _ in cells),
        x_title="milliseconds",
        bars=rows,
    )
    below = data_of("Seconds of a step", ["part", "median", "90th percentile"], cells)
    return joined(figure("Where a step's time goes", bars.drawn(chart), below, note=_SPLIT_NOTE), gaps)


def _spreads(run: Run) -> dict[str, object]:
    return {name: spread for name, spread in reading.mapping(run.facts, "throughput", "splitSeconds").items() if spread}


def _further(runs: Sequence[Run]) -> dict[str, str]:
    return {name: name for run in runs for name in _spreads(run) if name not in _PARTS}


def _profile(runs: Sequence[Run]) -> Html | None:
    if not any(reading.mapping(run.record, "profile") for run in runs):
        return None
    return per_run(runs, [_profiled(run) for run in runs])


def _profiled(run: Run) -> Html:
    steps = reading.mapping(run.record, "profile")
    if not steps:
        return missing(f"{NOT_RECORDED}trainProfileSteps named no step")
    keys = ("communication", "exposed_communication", "compute")
    rows = [
        [f"step {step}", *("-" if (value := reading.number(told, key)) is None else seconds(value) for key in keys)]
        for step, told in steps.items()
    ]
    head = ["profiled", "communication", "of which nothing hid", "compute"]
    return table(f"Profiled steps of rank 0{run.suffix}", head, rows)


def bandwidth(runs: Sequence[Run]) -> Html:
    """What a bandwidth job measured."""
    return section("bandwidth", "Bus bandwidth", per_run(runs, [_measured(run) for run in runs]))


def _measured(run: Run) -> Html:
    rows = reading.mappings(run.record, "rows")
    if not rows:
        return missing(run.missing("no size was measured"))
    cells = [
        [
            _told(row, "bytes"),
            _told(row, "time_us"),
            _told(row, "algbw_gbs"),
            _told(row, "busbw_gbs"),
            _told(row, "wrong"),
        ]
        for row in rows
    ]
    head = ["bytes", "time (us)", "algorithm (GB/s)", "bus (GB/s)", "wrong sums"]
    largest = max(rows, key=lambda row: reading.number(row, "bytes") or 0.0)
    top = definitions(
        [("largest size", _told(largest, "bytes")), ("bus bandwidth there", f"{_told(largest, 'busbw_gbs')} GB/s")]
    )
    return joined(top, table(f"All-reduces between all ranks{run.suffix}", head, cells))


def _told(row: object, key: str) -> str:
    value = reading.number(row, key)
    return "-" if value is None else plain(value)


def mfu(run: Run) -> str:
    value = run.number("throughput", "mfu")
    return (
        run.older("throughput", "mfu", why="no peak is known of this device, or no shape of this model")
        if value is None
        else share(value)
    )
