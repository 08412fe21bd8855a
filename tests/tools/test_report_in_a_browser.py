"""The report page in a real browser: nothing loaded, nothing cut, nothing that axe complains of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from report.page import page
from tests.support import report_runs
from tests.support.browser import Tab, tab
from tools.browser import choice

BROWSER = choice.here()
pytestmark = pytest.mark.skipif(
    BROWSER is None,
    reason="no Chromium here: `python -m tools.browser` fetches one, or the variable CHROMIUM names one",
)
NAMES = ("one", "two", "failed")
FIGURES = "[...document.querySelectorAll('figure')]"
WIDTHS = (320, 360, 768, 1200)


@pytest.fixture(scope="module")
def shown() -> Iterator[Tab]:
    assert BROWSER
    with tab(BROWSER.chromium) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    makers = (report_runs.efa, report_runs.sockets, report_runs.failed)
    efa, sockets, failed = (report_runs.loaded(maker(folder)) for maker in makers)
    made = {"one": page(efa), "two": page(efa, sockets), "failed": page(failed)}
    for name, html in made.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


@pytest.mark.parametrize("name", NAMES)
def test_it_asks_for_nothing_and_breaks_no_rule_of_its_own(shown: Tab, pages: dict[str, Path], name: str) -> None:
    shown.open(pages[name])
    assert shown.value("getComputedStyle(document.body).marginTop") == "0px", "the style sheet was let in"
    assert shown.requests == [pages[name].resolve().as_uri()]
    assert shown.said == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_itself_never_scrolls_sideways(shown: Tab, pages: dict[str, Path], name: str, width: int) -> None:
    shown.open(pages[name], width=width)
    shown.value("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert shown.value("document.documentElement.scrollWidth") <= width


def test_a_phone_gets_drawings_made_for_it(shown: Tab, pages: dict[str, Path]) -> None:
    for width, kind in ((360, "narrow"), (1200, "wide")):
        shown.open(pages["one"], width=width)
        seen = "[...document.querySelectorAll('svg.chart')].filter(one => one.checkVisibility())"
        assert set(shown.value(f"{seen}.map(one => one.classList[one.classList.length - 1])")) == {kind}
        letters = f"{seen}.flatMap(one => [...one.querySelectorAll('text')]).map(one => one.getBoundingClientRect())"
        assert min(shown.value(f"{letters}.map(one => one.height)")) >= 11, "letters of a drawing stay readable"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (360, False)], ids=["light", "dark", "phone"])
def test_axe_finds_nothing(shown: Tab, pages: dict[str, Path], name: str, width: int, dark: bool) -> None:
    assert BROWSER
    if BROWSER.axe is None:
        pytest.skip("no axe here: `python -m tools.browser` fetches it, or the variable AXE names axe.min.js")
    shown.open(pages[name], width=width, dark=dark)
    shown.value("document.querySelectorAll('details').forEach(one => { one.open = true })")
    shown.value(BROWSER.axe.read_text(encoding="utf-8") + ";0")
    shown.value("axe.run().then(found => { window.found = found })")
    assert shown.value("found.violations.map(one => [one.id, one.help, one.nodes[0].html])") == []
    looked = "found.passes.filter(one => one.id == 'color-contrast').flatMap(one => one.nodes).length"
    assert shown.value(looked) > 40, "contrast was looked at"


def test_dark_is_dark_and_paper_is_white(shown: Tab, pages: dict[str, Path]) -> None:
    ground = "getComputedStyle(document.querySelector('section + section')).backgroundColor"
    shown.open(pages["one"])
    light = shown.value(ground)
    shown.open(pages["one"], dark=True)
    assert light == "rgb(255, 255, 255)"
    assert shown.value(ground) == "rgb(22, 29, 36)"


def test_no_drawing_is_cut_by_the_end_of_a_sheet(shown: Tab, pages: dict[str, Path]) -> None:
    shown.open(pages["two"])
    shown.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert shown.value(f"{FIGURES}.every(one => getComputedStyle(one).breakInside == 'avoid')")
        # Of what is printed at 96 pixels an inch; A4 less its margins.
        tallest = shown.value(f"Math.max(...{FIGURES}.map(one => one.getBoundingClientRect().height))")
        assert tallest < 1000
    finally:
        shown.call("Emulation.setEmulatedMedia", media="")
    assert shown.printed().startswith(b"%PDF")
