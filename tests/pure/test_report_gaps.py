"""A record that lacks something: the page says what is not recorded and why, and never an empty box or a crash."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from report.log_facts import read as read_log
from report.page import page
from report.run import Run
from tests.support import report_runs
from tests.support.page_reader import Element, read

OTHER_VALUES: tuple[Any, ...] = (
    None,
    "text",
    -1,
    1e308,
    float("nan"),
    True,
    [],
    {},
    [None],
    {"a": None},
    [[1, 2, 3]],
    {"0": "x"},
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    runs = tmp_path_factory.mktemp("runs")
    return report_runs.loaded(report_runs.efa(runs))


def shown(record: dict[str, Any], **other: Any) -> Element:
    return read(page(Run(id="run-1", record=record, **other)))


def text_of(root: Element, identity: str) -> str:
    return next(one for one in root.all("section") if one.attributes["id"] == identity).text


def changed(run: Run, *path: str, to: Any) -> dict[str, Any]:
    record: dict[str, Any] = copy.deepcopy(dict(run.record))
    inner = record
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return record


def no_empty_section(root: Element) -> None:
    for one in root.all("section", "figure", "table", "dl", "ul"):
        heading = next(one.all("h2"), None)
        assert one.text != (heading.text if heading else ""), f"<{one.name}> with nothing in it"
    for words in ("None", "nan", "NaN", "null", "Traceback"):
        outside = [one.text for one in root.all("p", "td", "dd", "li", "text") if words in one.text.split()]
        assert not outside, f"{words} is no word for a reader"


@pytest.mark.parametrize(
    ("path", "to", "section", "words"),
    [
        (("memory", "peakBytesByRank"), {}, "memory", "Not recorded because no rank told its peak"),
        (("throughput", "splitSeconds"), {}, "speed", "Not recorded because no part of a step was timed"),
        (("cost", "hourlyUsd"), None, "cost", "Not recorded because this record holds no price"),
        (("timings",), {}, "time", "Times of the job are not recorded because the job told none"),
        (("timings",), {"total_s": 9.0}, "time", "the job told its whole time alone"),
        (("losses",), [], "quality", "tokens"),
        (("evaluation",), {}, "quality", "Not recorded because nothing was evaluated"),
        (("transport", "matrix"), [], "transport", "the evidence holds none of NCCL's lines about channels"),
        (("transport",), {}, "transport", "Not recorded because no rank reported"),
        (("quality",), {"passed": None, "reasons": []}, "result", "Not judged"),
        (("verdict",), {"expect": "efa", "value": None, "reasons": []}, "result", "Not judged"),
    ],
    ids=lambda value: value if isinstance(value, str) else ".".join(value) if isinstance(value, tuple) else "",
)
def test_a_part_that_is_missing_is_said_with_its_reason(
    whole: Run, path: tuple[str, ...], to: Any, section: str, words: str
) -> None:
    root = shown(changed(whole, *path, to=to), log=whole.log)
    assert words in text_of(root, section)
    no_empty_section(root)


def test_what_only_the_log_has_is_missed_where_there_is_none(whole: Run) -> None:
    root = shown(dict(whole.record), log=None)
    for section in ("speed", "memory", "quality"):
        assert "only the job's log has it, and there is no job.log beside the record" in text_of(root, section)
    no_empty_section(root)


def test_a_record_of_an_older_version_is_told_from_one_that_measured_nothing(whole: Run) -> None:
    record = copy.deepcopy(dict(whole.record))
    del record["throughput"]["splitSeconds"], record["throughput"]["mfu"]
    root = shown(record, log=whole.log)
    assert "the version that made this record did not write throughput.splitSeconds" in text_of(root, "speed")
    assert "the version that made this record did not write throughput.mfu" in text_of(root, "figures")
    assert "whole step 420 ms" in text_of(root, "speed"), "what it did measure is shown"


def test_a_local_run_says_that_gloo_has_no_channels(tmp_path: Path) -> None:
    root = read(page(report_runs.loaded(report_runs.gloo(tmp_path))))
    assert "communicated through gloo, and only NCCL tells of its channels" in text_of(root, "transport")
    assert "4 of 4 ranks on 2 nodes" in text_of(root, "transport")
    assert "this machine: nothing is billed" in text_of(root, "cost")
    assert "this machine's Ray nodes were up before it" in text_of(root, "time")


def test_a_failed_run_shows_its_error_and_how_far_it_came(tmp_path: Path) -> None:
    root = read(page(report_runs.loaded(report_runs.failed(tmp_path))))
    assert "Run failed" in text_of(root, "result")
    assert "CUDA out of memory" in text_of(root, "result")
    assert "the run ended with an error before it had a record" in text_of(root, "result")
    assert list(next(root.all("figure")).all("path")), "the steps that it made"
    no_empty_section(root)


def test_a_run_that_goes_on_or_was_given_up_is_neither_passed_nor_failed() -> None:
    root = shown({}, log=read_log([]))
    assert "Not ended" in text_of(root, "result")
    assert "it goes on, or whatever followed it was interrupted" in text_of(root, "result")
    no_empty_section(root)


def test_a_bring_up_that_is_known_is_drawn_against_its_model(whole: Run) -> None:
    steps = [
        {"name": "control plane", "seconds": 540.0, "modelSeconds": 510.0},
        {"name": "GPU nodes", "seconds": 95.0, "modelSeconds": None},
    ]
    root = shown(dict(whole.record), log=whole.log, bring_up=steps)
    text = text_of(root, "time")
    assert "control plane 9 min 0 s 8 min 30 s" in text
    assert "not recorded" not in text


def test_a_record_of_a_newer_schema_is_read_with_a_notice(whole: Run) -> None:
    root = shown(changed(whole, "schema", to="ray-train-efa/run-record/9"), log=whole.log)
    assert "has schema ray-train-efa/run-record/9" in next(root.all("header")).text


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+12:00", "9999-12-31T23:59:59-12:00", "soon", 5])
def test_a_time_that_no_calendar_has_is_left_out(whole: Run, moment: Any) -> None:
    record = {**whole.record, "startedAt": moment, "endedAt": moment}
    assert "Result" in shown(record, log=whole.log).text


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(8, 300))])
def test_no_damage_to_a_record_keeps_the_page_from_being_made(whole: Run, seed: int) -> None:
    chance = random.Random(seed)
    record: Any = json.loads(json.dumps(whole.record))
    record["transport"].pop("report")
    for _ in range(chance.randint(1, 6)):
        damage(record, chance)
    other = Run(id="run-2", record=whole.record, log=whole.log)
    for root in (shown(record, log=chance.choice((None, whole.log))), read(page(other, Run(id="x", record=record)))):
        assert "Result" in root.text


def damage(record: Any, chance: random.Random) -> None:
    """Takes out or replaces one value at any depth."""
    place: Any = record
    while True:
        key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.7:
            place = inner
            continue
        if isinstance(place, dict) and key not in ("rows", "schema") and chance.random() < 0.4:
            del place[key]
        else:
            place[key] = copy.deepcopy(chance.choice(OTHER_VALUES))
        return
