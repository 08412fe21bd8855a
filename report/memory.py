"""PURE: the memory that ranks took at most, against what training had planned."""

import statistics
from collections.abc import Mapping, Sequence

from report import bars, reading
from report.markup import Html, tag
from report.parts import data_of, figure, look, missing, section, sentence
from report.run import NOT_RECORDED, Run
from report.units import GIB, size

_MOST_BARS = 16


def memory(runs: Sequence[Run]) -> Html:
    known = [run for run in runs if peaks(run)]
    gaps = [missing(run.tells(run.missing("no rank told its peak"))) for run in runs if run not in known]
    plans = [tag("p", sentence(run.tells(_planned(run))), class_="aside") for run in known]
    return section("memory", "Memory", _drawn(known) if known else None, plans, gaps)


def peaks(run: Run) -> dict[int, float]:
    """Bytes by rank."""
    told = reading.mapping(run.facts, "memory", "peakBytesByRank")
    read = {rank: reading.number(told, rank) for rank in told}
    return dict(
        sorted((int(rank), value) for rank, value in read.items() if value is not None and str(rank).isdecimal())
    )


def _drawn(runs: Sequence[Run]) -> Html:
    by_run = [_shown(peaks(run), most=_MOST_BARS // len(runs)) for run in runs]
    names = list(dict.fromkeys(name for rows in by_run for name in rows))
    found = [(name, run, rows[name]) for name in names for run, rows in zip(runs, by_run, strict=True) if name in rows]
    chart = bars.Bars(
        identity="memory",
        title="Peak memory by rank",
        summary="; ".join(run.tells(_spread(run)) for run in runs),
        x_title="GiB",
        bars=[
            bars.Bar(
                label=f"{name} {run.label}".strip(),
                value=value / GIB,
                told=size(value),
                look=look(run),
                joins=run is not runs[0],
            )
            for name, run, value in found
        ],
        markers=_markers(runs),
    )
    tables = [
        data_of(
            f"Peak memory by rank{run.suffix}",
            ["rank", "peak"],
            [[str(rank), size(value)] for rank, value in peaks(run).items()],
            of=run.suffix,
        )
        for run in runs
    ]
    return figure("Peak memory by rank", bars.drawn(chart), tables, note=_measured(runs))


def _shown(by_rank: Mapping[int, float], *, most: int) -> dict[str, float]:
    """Each rank's; of many the largest, the median and the smallest."""
    if len(by_rank) <= most:
        return {f"rank {rank}": value for rank, value in by_rank.items()}
    values = by_rank.values()
    return {"largest": max(values), f"median of {len(values)}": statistics.median(values), "smallest": min(values)}


def _spread(run: Run) -> str:
    values = peaks(run).values()
    return f"from {size(min(values))} to {size(max(values))}; {_planned(run)}"


def _planned(run: Run) -> str:
    if run.log is None:
        return f"the plan is {run.no_log}"
    if run.log.plan is None:
        return f"the plan is {NOT_RECORDED}training plans memory only for a GPU and a model whose shape it knows"
    return f"said before the first step: {run.log.plan.said}"


def _markers(runs: Sequence[Run]) -> list[bars.Marker]:
    """Each once: two runs of the same plan have one."""
    found = {}
    for run in runs:
        if run.log and (plan := run.log.plan):
            found[f"planned {size(plan.peak)}"] = plan.peak / GIB
            if plan.room is not None:
                found[f"{plan.gpu} has {size(plan.room)}"] = plan.room / GIB
    return [bars.Marker(label=label, value=value) for label, value in found.items()]


def _measured(runs: Sequence[Run]) -> str:
    ranks = [rank for run in runs for rank in reading.mappings(run.facts, "transport", "ranks")]
    if any(str(rank.get("device") or "").startswith("cuda") for rank in ranks):
        return "As torch counts what it allocated on the GPU."
    return "The most that a rank's process held of the machine's memory."
