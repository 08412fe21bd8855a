"""PURE: where a run's time went: the stack's bring-up against its model, and the job."""

from collections.abc import Sequence

from report import bars, reading
from report.markup import Html, joined
from report.parts import data_of, figure, look, missing, section, table
from report.run import NOT_RECORDED, Run
from report.units import seconds

_JOB = {
    "driver_import_s": "driver imports Ray and Train",
    "ray_init_s": "driver joins the cluster",
    "prepare_s": "data and model are prepared",
    "worker_group_s": "workers start on their nodes",
    "train_s": "training steps",
    "eval_s": "evaluations",
    "checkpoint_s": "training waits for checkpoints",
    "measure_s": "all-reduces",
}

_REST = "everything else"


def timeline(runs: Sequence[Run]) -> Html:
    return section("time", "Time", _bring_up(runs), _jobs(runs), [_attempts(run) for run in runs])


def _bring_up(runs: Sequence[Run]) -> Html:
    rows, cells, gaps = [], [], []
    for run in runs:
        steps = [(step, reading.number(step, "seconds")) for step in run.bring_up]
        if not any(took is not None for _, took in steps):
            gaps.append(missing(run.tells(f"bring-up of the stack is {_no_bring_up(run)}")))
        for step, took in steps:
            if took is None:
                continue
            name, modelled = f"{step.get('name')} {run.label}".strip(), reading.number(step, "modelSeconds")
            rows.append(bars.Bar(label=name, value=took, told=seconds(took), look=look(run)))
            if modelled is not None:
                rows.append(
                    bars.Bar(label="modelled", value=modelled, told=seconds(modelled), look="model", joins=True)
                )
            cells.append([name, seconds(took), "-" if modelled is None else seconds(modelled)])
    if not rows:
        return joined(gaps)
    chart = bars.Bars(
        identity="bring-up",
        title="Bring-up of the stack against its model",
        summary="; ".join(f"{name}: {took}, modelled {modelled}" for name, took, modelled in cells),
        x_title="seconds",
        bars=rows,
    )
    below = data_of("Bring-up of the stack", ["step", "took", "model"], cells)
    return joined(figure("Bring-up of the stack against its model", bars.drawn(chart), below), gaps)


def _no_bring_up(run: Run) -> str:
    if reading.at(run.record, "cluster", "kind") == "local":
        return f"{NOT_RECORDED}a record begins with its job; this machine's Ray nodes were up before it"
    return run.missing("a record begins with its job; `efactl report RUN -s STACK` takes it from the stack's state")


def _jobs(runs: Sequence[Run]) -> Html:
    by_run = [_parts(run) for run in runs]
    gaps = [missing(run.tells(_no_parts(run))) for run, parts in zip(runs, by_run, strict=True) if not parts]
    names = sorted({name: None for parts in by_run for name in parts}, key=_place)
    rows = [
        bars.Bar(
            label=f"{name} {run.label}".strip(),
            value=parts[name],
            told=seconds(parts[name]),
            look=look(run),
            joins=run is not runs[0] and name in by_run[0],
        )
        for name in names
        for run, parts in zip(runs, by_run, strict=True)
        if name in parts
    ]
    if not rows:
        return joined(gaps)
    totals = [run.tells(f"{seconds(total)} in all") for run in runs if (total := _total(run)) is not None]
    chart = bars.Bars(
        identity="job",
        title="Where the job's time went",
        summary="; ".join(f"{bar.label}: {bar.told}" for bar in rows),
        x_title="seconds",
        bars=rows,
    )
    cells = [[bar.label, bar.told] for bar in rows]
    below = data_of("Where the job's time went", ["part", "time"], cells)
    return joined(figure("Where the job's time went", bars.drawn(chart), below, note="; ".join(totals)), gaps)


def _parts(run: Run) -> dict[str, float]:
    """Seconds by name, in the order in which they begin; empty where the job told no more than its whole time."""
    timings = reading.mapping(run.facts, "timings")
    known = {key: value for key in timings if (value := reading.number(timings, key)) is not None and value >= 0}
    total = known.pop("total_s", None)
    parts = {_JOB.get(key, key.removesuffix("_s").replace("_", " ")): value for key, value in known.items()}
    rest = 0.0 if total is None else total - sum(parts.values())
    return parts | ({_REST: rest} if parts and rest > 0 else {})


def _total(run: Run) -> float | None:
    return run.number("timings", "total_s")


def _no_parts(run: Run) -> str:
    total = _total(run)
    if total is None:
        return f"times of the job are {run.missing('the job told none')}"
    return f"the job took {seconds(total)}; parts of that are {NOT_RECORDED}the job told its whole time alone"


def _attempts(run: Run) -> Html | None:
    attempts = reading.mappings(run.facts, "attempts")
    if len(attempts) < 2:
        return None
    rows = []
    for one in attempts:
        step = reading.number(one, "resumedFromStep")
        rows.append(
            [str(one.get("attempt")), "-" if step is None else f"{step:.0f}", str(len(reading.mappings(one, "ranks")))]
        )
    return table(f"Workers started {len(attempts)} times{run.suffix}", ["attempt", "went on from step", "ranks"], rows)


def _place(name: str) -> int:
    order = [*_JOB.values(), _REST]
    return order.index(name) if name in order else len(order)
