"""PURE: the page of one run, or of two beside each other."""

from collections.abc import Sequence
from dataclasses import replace

from report import reading
from report.cost import cost
from report.full_record import full_record
from report.key_figures import key_figures
from report.learning import learning
from report.markup import Html, joined, tag, text
from report.matrix import transport
from report.memory import memory
from report.parts import badge, counted, missing
from report.results import results
from report.run import Run
from report.run_files import SCHEMAS
from report.speed import bandwidth, speed
from report.style import POLICY, STYLE
from report.timeline import timeline
from report.units import moment, seconds
from report.what_ran import what_ran
from workload.errors import BadInputError

_KNOWN = tuple(f"{schema}1" for schema in SCHEMAS)


def page(run: Run, other: Run | None = None, *, findings: Sequence[str] = ()) -> str:
    """One HTML document that loads nothing. `findings` are sentences on how two runs differ, shown with what ran.

    Raises BadInputError where a training run and a measurement of bandwidth would be set beside each other.
    """
    runs = [run] if other is None else [replace(run, label="A"), replace(other, label="B")]
    kinds = {one.measures_bandwidth for one in runs}
    if len(kinds) > 1:
        raise BadInputError(
            f"'{run.id}' and '{runs[-1].id}' cannot be set beside each other: one trained, one measured bandwidth"
        )
    sections = _sections(runs, findings, bandwidth_job=kinds.pop())
    title = f"Report on {' and '.join(one.id for one in runs)}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Html(STYLE)),
    )
    main = tag("main", [body for _, _, body in sections], id="main", class_="wrap")
    footer = tag("footer", tag("p", "Made by efactl report from the run's record and its job's log."), class_="wrap")
    body = tag("body", tag("a", "To the result", href="#main", class_="skip"), _header(runs, sections), main, footer)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


Sections = list[tuple[str, str, Html]]


def _sections(runs: Sequence[Run], findings: Sequence[str], *, bandwidth_job: bool) -> Sections:
    if bandwidth_job:
        return [
            ("result", "Result", results(runs)),
            ("bandwidth", "Bandwidth", bandwidth(runs)),
            ("transport", "Transport", transport(runs)),
            ("time", "Time", timeline(runs)),
            ("what-ran", "What ran", what_ran(runs, findings)),
            ("record", "Full record", full_record(runs)),
        ]
    return [
        ("result", "Result", results(runs)),
        ("figures", "Key figures", key_figures(runs)),
        ("transport", "Transport", transport(runs)),
        ("speed", "Speed", speed(runs)),
        ("memory", "Memory", memory(runs)),
        ("time", "Time", timeline(runs)),
        ("cost", "Cost", cost(runs)),
        ("quality", "Model quality", learning(runs)),
        ("what-ran", "What ran", what_ran(runs, findings)),
        ("record", "Full record", full_record(runs)),
    ]


def _header(runs: Sequence[Run], sections: Sections) -> Html:
    if len(runs) == 1:
        title = tag("h1", "Run ", tag("span", runs[0].id, class_="id"))
    else:
        title = tag("h1", "Two runs side by side")
    about = [_about(run) for run in runs]
    links = [tag("li", tag("a", words, href=f"#{identity}")) for identity, words, _ in sections]
    inner = joined(
        tag("p", "ray-train-efa run report", class_="over"),
        title,
        about,
        [missing(notice) for run in runs if (notice := _notice(run))],
        tag("nav", tag("ul", links), aria_label="Parts of this report"),
    )
    return tag("header", inner, class_="wrap")


def _about(run: Run) -> Html:
    """When, how long, on what: in one line."""
    cluster, took, start = reading.mapping(run.facts, "cluster"), run.seconds, run.moment("startedAt")
    nodes = reading.mappings(cluster, "nodes")
    types = sorted({str(node["instanceType"]) for node in nodes if node.get("instanceType")})
    ranks = run.number("transport", "worldSize")
    said = [
        moment(start) if start else None,
        None if took is None else f"took {seconds(took)}",
        f"{cluster['kind']} cluster {cluster.get('name') or ''}".strip() if cluster.get("kind") else None,
        f"{counted(len(nodes), 'node')}{' of ' + ', '.join(types) if types else ''}" if nodes else None,
        None if ranks is None else counted(int(ranks), "rank"),
    ]
    words = ", ".join(one for one in said if one) or run.missing("")
    name = joined(badge(run), " ", tag("span", run.id, class_="id"), Html("<br>")) if run.label else None
    return tag("p", name, text(words), class_="about")


def _notice(run: Run) -> str | None:
    schema = reading.at(run.record, "schema")
    if schema is None or schema in _KNOWN:
        return None
    return f"This record has schema {schema}; what is shown was read as {_KNOWN[0]}"
