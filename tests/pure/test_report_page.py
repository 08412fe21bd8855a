"""The page of a run: what a reader finds where, what a browser may load, what one without eyes is told."""

import base64
import functools
import hashlib
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from report.page import page
from tests.support import report_runs
from tests.support.page_reader import Element, read
from tests.support.recorded import changed
from workload.errors import BadInputError

MAKERS: dict[str, Callable[[Path], Path]] = {
    "gloo": report_runs.gloo,
    "efa": report_runs.efa,
    "sockets": report_runs.sockets,
    "real": report_runs.real_sockets,
    "failed": report_runs.failed,
}


Pages = Callable[..., str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """The page of one of `MAKERS`, or of two beside each other; each made once."""

    @functools.cache
    def make(*names: str) -> str:
        runs = tmp_path_factory.mktemp("runs")
        return page(*(report_runs.loaded(MAKERS[name](runs)) for name in names))

    return make


def section(root: Element, identity: str) -> Element:
    return next(one for one in root.all("section") if one.attributes["id"] == identity)


PAGES = pytest.mark.parametrize(
    "names", [("gloo",), ("efa",), ("sockets",), ("failed",), ("efa", "sockets"), ("gloo", "failed")], ids="-".join
)


@PAGES
def test_headings_descend_one_level_at_a_time_from_a_single_first(made: Pages, names: tuple[str, ...]) -> None:
    levels = [int(one.name[1]) for one in read(made(*names)).all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), levels


@PAGES
def test_the_page_loads_nothing_and_runs_nothing(made: Pages, names: tuple[str, ...]) -> None:
    root = read(made(*names))
    elements = list(root.all())
    assert not {one.name for one in elements} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "image",
        "use",
        "form",
        "base",
    }
    for one in elements:
        assert not {"src", "srcset", "style"} & set(one.attributes), one
        assert not any(name.startswith("on") for name in one.attributes), one
        assert one.attributes.get("href", "#").startswith("#"), one
    (style,) = root.all("style")
    assert not re.search(r"url\(|@import|@font-face", style.text)


@PAGES
def test_the_policy_lets_in_the_one_style_sheet_and_nothing_else(made: Pages, names: tuple[str, ...]) -> None:
    text = made(*names)
    sheet = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    (policy,) = (one for one in read(text).all("meta") if one.attributes.get("http-equiv") == "Content-Security-Policy")
    assert sheet
    digest = base64.b64encode(hashlib.sha256(sheet[1].encode()).digest()).decode()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.attributes["content"].split(";"))
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


@PAGES
def test_who_does_not_see_the_page_is_told_all_of_it(made: Pages, names: tuple[str, ...]) -> None:
    root = read(made(*names))
    (html,) = root.all("html")
    assert html.attributes["lang"] == "en"
    assert next(root.all("title")).text
    identities = [one.attributes["id"] for one in root.all() if "id" in one.attributes]
    assert len(identities) == len(set(identities)), "an id twice leads to the wrong place"
    for one in root.all():
        for target in one.attributes.get("aria-labelledby", "").split():
            assert target in identities
        if one.attributes.get("href", "").startswith("#"):
            assert one.attributes["href"][1:] in identities
    for drawing in root.all("svg"):
        if drawing.attributes.get("aria-hidden") != "true":
            assert drawing.attributes["role"] == "img"
            assert [one.name for one in drawing.all()][:2] == ["title", "desc"]
            assert all(one.text for one in list(drawing.all())[:2])
    for table in root.all("table"):
        assert table.attributes["aria-label"]
        assert all(head.attributes["scope"] in ("col", "row") for head in table.all("th"))
        assert table.parent and table.parent.attributes["tabindex"] == "0", "who has no mouse cannot scroll it"


@PAGES
def test_every_drawing_has_its_data_as_a_table(made: Pages, names: tuple[str, ...]) -> None:
    figures = list(read(made(*names)).all("figure"))
    assert figures
    for figure in figures:
        drawings = list(figure.all("svg"))
        assert [one.attributes["class"].split()[-1] for one in drawings] == ["wide", "narrow"]
        for drawing in drawings:
            assert sum("tick" in one.attributes.get("class", "") for one in drawing.all("text")) >= 2
            assert any(one.attributes.get("class") == "axis-title" for one in drawing.all("text"))
        assert list(figure.all("table")), "the same figures, for who does not see them"


def test_nothing_but_what_scrolls_by_itself_is_wider_than_a_phone(made: Pages) -> None:
    (style,) = read(made("efa")).all("style")
    for rule, declared in re.findall(r"([^{}]+)\{([^{}]*)\}", style.text):
        for wide in re.findall(r"(?<![-\w])(?:min-)?width:(\d+)px", declared):
            in_scroller = "table" in rule or ".facts" in rule
            assert int(wide) <= 320 or in_scroller or rule.startswith("@"), (rule, declared)


def test_colour_is_never_alone_in_saying_the_verdict(made: Pages) -> None:
    for name, words in (("efa", "Transport proven"), ("sockets", "Transport refuted"), ("failed", "Run failed")):
        result = section(read(made(name)), "result")
        assert words in result.text
        assert len(list(result.all("svg"))) == 2, "a shape beside each of both words"


def test_the_result_comes_first_with_its_reasons_and_both_results_apart(made: Pages) -> None:
    root = read(made("sockets"))
    first = next(root.all("section"))
    infrastructure, quality = (one for one in first.all("div") if "card" in one.attributes.get("class", "").split())
    assert infrastructure.text.startswith("Infrastructure Transport refuted")
    assert "via NET/Socket/0" in infrastructure.text
    assert quality.text.startswith("Model quality Not good enough")
    assert "too high" in quality.text


def test_the_matrix_says_over_what_each_host_sent_to_each_other(made: Pages) -> None:
    table = next(section(read(made("efa")), "transport").all("table"))
    assert [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")] == [
        ["from \\ to", "ip-10-20-1-11", "ip-10-20-1-42"],
        ["ip-10-20-1-11", "P2P 4 channels", "NET/Libfabric+GDR 4 channels"],
        ["ip-10-20-1-42", "NET/Libfabric+GDR 4 channels", "P2P 4 channels"],
    ]


def test_the_matrix_of_a_run_that_really_went_over_sockets(made: Pages) -> None:
    text = section(read(made("real")), "transport").text
    assert "NET/Socket" in text
    assert "Libfabric" not in text
    assert "TCP sockets" in text


def test_evaluations_on_the_way_and_the_plan_of_memory_come_from_the_log(made: Pages) -> None:
    root = read(made("efa"))
    wide = next(section(root, "quality").all("svg"))
    assert len(list(wide.all("circle"))) == 5, "before, at steps 30, 60 and 90, and after"
    memory = section(root, "memory").text
    assert "planned 6 GiB" in memory
    assert "L4 has 22 GiB" in memory
    assert "5.9 GiB" in memory


def test_two_runs_stand_side_by_side_with_what_differs_marked(made: Pages) -> None:
    root = read(made("efa", "sockets"))
    assert "Run A" in section(root, "result").text
    rows = {row.text.split(" ")[0]: row for row in section(root, "figures").all("tr")}
    assert rows["Tokens"].attributes.get("class") == "differs"
    assert "39,010" in rows["Tokens"].text
    assert "\N{MINUS SIGN}69.0" in rows["Tokens"].text
    assert rows["Peak"].attributes.get("class") is None
    assert "the same" in rows["Peak"].text
    curves = next(section(root, "speed").all("svg"))
    assert [one.attributes["class"] for one in curves.all("g") if "series" in one.attributes.get("class", "")] == [
        "series a",
        "series b",
    ]
    changed = section(root, "what-ran").text
    assert "setting: gateMaxEvalLoss (empty) 2.0 differs" in changed


def test_two_runs_of_one_model_s_name_are_told_apart_by_its_files(tmp_path: Path) -> None:
    runs = []
    for maker, commit in ((report_runs.efa, "a" * 40), (report_runs.sockets, "b" * 40)):
        folder = changed(maker(tmp_path), model={"identity": commit})
        runs.append(report_runs.loaded(folder))
    assert f"model: identity {'a' * 40} {'b' * 40} differs" in section(read(page(*runs)), "what-ran").text


def test_what_only_one_record_holds_is_told_from_what_differs(made: Pages) -> None:
    changed = section(read(made("gloo", "failed")), "what-ran")
    folded = next(one for one in changed.all("details") if "on record of one run only" in one.text)
    assert "image: reference registry.example/ray:train-1 not recorded only in A" in folded.text
    assert "argument: steps 60 6 differs" in changed.text
    assert "argument: steps" not in folded.text


def test_what_another_comparison_found_can_be_told_with_what_ran(tmp_path: Path) -> None:
    runs = [report_runs.loaded(maker(tmp_path)) for maker in (report_runs.efa, report_runs.sockets)]
    root = read(page(*runs, findings=["the image is <another>"]))
    assert "the image is <another>" in section(root, "what-ran").text


def test_a_measurement_has_a_page_too_but_none_with_a_training(tmp_path: Path) -> None:
    folder = report_runs.spoilt(report_runs.efa(tmp_path), report_runs.into_measurement)
    measured = report_runs.loaded(folder)
    root = read(page(measured))
    assert "1,073,741,824" in section(root, "bandwidth").text
    assert "Measurement Good enough" in section(root, "result").text
    with pytest.raises(BadInputError, match="one trained, one measured bandwidth"):
        page(measured, report_runs.loaded(report_runs.gloo(tmp_path)))


@pytest.mark.parametrize(
    ("value", "state", "words"),
    [
        ("proven", "good", "The evidence shows that the hosts communicated over EFA, as expected."),
        ("refuted", "bad", "did not communicate over EFA alone"),
        ("unproven", "open", "Evidence is missing"),
    ],
)
def test_each_verdict_has_a_state_a_word_and_a_sentence(tmp_path: Path, value: str, state: str, words: str) -> None:
    folder = report_runs.spoilt(report_runs.efa(tmp_path), lambda record: record["verdict"].update(value=value))
    result = section(read(page(report_runs.loaded(folder))), "result")
    card = next(one for one in result.all("div") if "card" in one.attributes.get("class", "").split())
    assert state in card.attributes["class"].split()
    assert f"Transport {value}" in card.text
    assert words in card.text
