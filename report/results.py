"""PURE: what came of a run: the infrastructure's result and the model's, apart."""

from collections.abc import Sequence

from report import reading
from report.markup import Html, joined, tag
from report.parts import badge, missing, reasons, section
from report.run import Run
from report.units import moment as shown
from report.units import plain

_TRANSPORTS = {"efa": "EFA", "socket": "TCP sockets", "gloo": "gloo"}
_MEANS = {
    "proven": "The evidence shows that the hosts communicated over {}, as expected.",
    "refuted": "The evidence shows that the hosts did not communicate over {} alone, as was expected.",
    "unproven": "Evidence is missing: whether the hosts communicated over {}, as expected, is not shown.",
}
_STATES = {"proven": "good", "refuted": "bad", "unproven": "open"}
_SHOWN = 12
# What a colour says, said by a shape as well.
_SHAPES = {
    "good": "M4 12.5l5 5L20 6.5",
    "bad": "M6 6l12 12M18 6L6 18",
    "open": "M8.5 9a3.5 3.5 0 1 1 5.2 3c-1.2.7-1.7 1.3-1.7 2.5M12 18v.5",
    "near": "M6 12h12",
}


def results(runs: Sequence[Run]) -> Html:
    return section(
        "result", "Result", tag("div", [_of_run(run) for run in runs], class_="pair" if len(runs) > 1 else None)
    )


def _of_run(run: Run) -> Html:
    title = tag("h3", badge(run), f" {run.named}", class_="of-run") if run.label else None
    return tag(
        "div",
        title,
        tag("div", _infrastructure(run), _quality(run), class_="results" if not run.label else "results stacked"),
    )


def _infrastructure(run: Run) -> Html:
    value, expect = (str(reading.at(run.record, "verdict", key)) for key in ("value", "expect"))
    expected = _TRANSPORTS.get(expect, expect)
    if value in _MEANS:
        said = joined(
            tag("p", _MEANS[value].format(expected)), reasons(reading.texts(run.record, "verdict", "reasons"))
        )
        judged = run.moment("verdict", "judgedAt")
        when = tag("p", f"Judged {shown(judged)}", class_="aside") if judged else None
        return _card("Infrastructure", f"Transport {value}", _STATES[value], joined(said, when))
    if run.record:
        return _card("Infrastructure", "Not judged", "near", missing(run.missing("no gate has judged this run")))
    if run.error is None:
        return _card("Infrastructure", "Not ended", "open", missing(run.missing("")))
    headline, *rest = run.error.splitlines() or ["no reason was kept"]
    first, more = "\n".join(rest[:_SHOWN]), "\n".join(rest[_SHOWN:])
    said = joined(tag("p", headline), tag("pre", first, tabindex=0) if first else None)
    folded = tag("details", tag("summary", "The rest of the error"), tag("pre", more, tabindex=0)) if more else None
    return _card("Infrastructure", "Run failed", "bad", joined(said, folded))


def _quality(run: Run) -> Html:
    passed, why = reading.at(run.record, "quality", "passed"), reading.texts(run.record, "quality", "reasons")
    if run.measures_bandwidth:
        return _measurement(passed, why)
    before, after = (run.number("evaluation", key) for key in ("lossBefore", "lossAfter"))
    moved = (
        tag("p", f"Held-out loss {plain(before)} before training, {plain(after)} after.")
        if before is not None and after is not None
        else None
    )
    limit = reading.at(run.facts, "settings", "gateMaxEvalLoss")
    if passed is True and not limit:
        return _card(
            "Model quality",
            "No limit set",
            "near",
            joined(moved, tag("p", "The setting gateMaxEvalLoss is empty, so no loss could fail the run.")),
        )
    if passed is True:
        return _card(
            "Model quality", "Good enough", "good", joined(moved, tag("p", f"The limit was gateMaxEvalLoss {limit}."))
        )
    if passed is False:
        return _card("Model quality", "Not good enough", "bad", joined(moved, reasons(why)))
    return _card(
        "Model quality", "Not judged", "near", joined(moved, missing(run.missing("no gate has judged this run")))
    )


def _measurement(passed: object, why: Sequence[str]) -> Html:
    if passed is True:
        return _card("Measurement", "Good enough", "good", tag("p", "Bandwidth and sums are as demanded."))
    if passed is False:
        return _card("Measurement", "Not good enough", "bad", reasons(why))
    return _card("Measurement", "Not judged", "near", reasons(why))


def _card(kind: str, words: str, state: str, body: Html) -> Html:
    mark = tag(
        "svg",
        tag("path", d=_SHAPES[state]),
        class_="mark",
        viewBox="0 0 24 24",
        aria_hidden="true",
    )
    head = tag(
        "p",
        tag("span", kind, class_="kind"),
        Html(" "),
        tag("span", mark, tag("strong", words), class_="words"),
        class_="head",
    )
    return tag("div", head, tag("div", body), class_=f"card {state}")
