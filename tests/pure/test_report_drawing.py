"""Colours that can be read, axes that tell the truth, numbers as a person writes them."""

import itertools
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report import bars, curves
from report.palette import DARK, LIGHT, READ_UPON, contrast
from report.style import STYLE
from report.units import change, plain, seconds, size, tick_labels, ticks, usd
from tests.support.page_reader import Element, read

SPACE = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), READ_UPON, ids="-on-".join)
def test_every_text_can_be_read_on_its_ground(palette: dict[str, str], ink: str, ground: str) -> None:
    assert contrast(palette[ink], palette[ground]) >= 4.5


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_the_style_has_no_colour_but_the_palettes() -> None:
    assert set(LIGHT) == set(DARK)
    assert set(re.findall(r"#[0-9a-fA-F]{3,8}\b", STYLE)) - {"#result", "#figures", "#record"} == {
        *LIGHT.values(),
        *DARK.values(),
    }
    assert set(re.findall(r"var\(--([\w-]+)\)", STYLE)) <= {*LIGHT, "mark", "tint"}
    assert "prefers-color-scheme:dark" in STYLE
    assert "@media print" in STYLE


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12), st.integers(2, 12))
def test_ticks_span_the_values_in_even_round_steps(low: float, span: float, about: int) -> None:
    high = low + span
    values = ticks(low, high, about)
    step = values[1] - values[0]
    assert values[0] <= low + step * 1e-6
    assert values[-1] >= high - step * 1e-6
    assert 2 <= len(values) <= about + 3
    for before, after in itertools.pairwise(values):
        assert after - before == pytest.approx(step, rel=1e-3, abs=abs(low) * 1e-14)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 50_000, ["0", "10k", "20k", "30k", "40k", "50k"]),
        (2.1, 6.2, ["2", "3", "4", "5", "6", "7"]),
        (0, 0.004, ["0.000", "0.001", "0.002", "0.003", "0.004"]),
        (0, 8, ["0", "2", "4", "6", "8"]),
        (4.5, 6.4, ["4.5", "5.0", "5.5", "6.0", "6.5"]),
        (5, 5, ["4.4", "4.6", "4.8", "5.0", "5.2", "5.4", "5.6"]),
    ],
)
def test_tick_labels_tell_ticks_apart(low: float, high: float, labels: list[str]) -> None:
    assert tick_labels(ticks(low, high, 5)) == labels


def drawing(html: str) -> Element:
    return next(read(html).all("svg"))


def chart(points: list[curves.Point], **changes: Any) -> curves.Chart:
    values: dict[str, Any] = {
        "identity": "c",
        "title": "t",
        "summary": "s",
        "x_title": "step",
        "y_title": "loss",
        "series": [curves.Series(name="a", points=points, look="a")],
    }
    return curves.Chart(**{**values, **changes})


def test_points_are_where_the_axes_say() -> None:
    svg = drawing(curves.drawn(chart([(0, 0), (50, 0.5), (100, 1)], from_zero=True)))
    path = next(svg.all("path")).attributes["d"]
    spots = [tuple(map(float, spot.split())) for spot in path.removeprefix("M").split("L")]
    ticks_at = {
        one.text: (float(one.attributes["x"]), float(one.attributes["y"]))
        for one in svg.all("text")
        if one.attributes.get("class") == "tick"
    }
    assert spots[1][0] == pytest.approx(ticks_at["50"][0], abs=0.2)
    assert spots[2][1] == pytest.approx(ticks_at["1.0"][1] - 4.5, abs=0.2)
    assert spots[0][1] > spots[2][1], "more is higher"


def test_speed_starts_at_nought_and_loss_does_not() -> None:
    of_speed = drawing(curves.drawn(chart([(1, 900), (2, 1000)], from_zero=True)))
    of_loss = drawing(curves.drawn(chart([(1, 900), (2, 1000)])))
    assert "0" in [one.text for one in of_speed.all("text")]
    assert "0" not in [one.text for one in of_loss.all("text")]


@pytest.mark.parametrize("points", [[(1, 2.0)], [(1, 2.0), (2, 2.0)], [(7, 0.0)], [(1, -3.0), (2, 4.0)]])
def test_one_point_and_flat_curves_are_seen(points: list[curves.Point]) -> None:
    svg = drawing(curves.drawn(chart(points)))
    assert len(list(svg.all("circle"))) == (1 if len(points) == 1 else 0)
    assert "nan" not in str([one.attributes for one in svg.all()])


def test_long_runs_are_thinned_to_medians_and_say_so() -> None:
    points = [(float(step), float(step % 7)) for step in range(1, 10_001)]
    thin, each = curves.thinned(points)
    assert len(thin) <= curves.MOST_POINTS
    assert each == 28
    assert thin[-1][0] == 10_000
    assert curves.thinned(points[:200]) == (points[:200], 1)


def test_bars_are_as_long_as_their_values_and_markers_stand_at_theirs() -> None:
    rows = [bars.Bar(label="a", value=5.0, told="5"), bars.Bar(label="b", value=10.0, told="10", until=12.0)]
    marked = [bars.Marker(label="plan", value=10.0)]
    whole = bars.Bars(identity="b", title="t", summary="s", x_title="GiB", bars=rows, markers=marked)
    svg = drawing(bars.drawn(whole))
    first, second = svg.all("rect")
    assert float(second.attributes["width"]) == pytest.approx(2 * float(first.attributes["width"]), abs=0.5)
    end = float(second.attributes["x"]) + float(second.attributes["width"])
    marker = next(one for one in svg.all("line") if one.attributes["class"] == "marker")
    assert float(marker.attributes["x1"]) == pytest.approx(end, abs=0.5)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (plain(16151.07), "16,151"),
        (plain(2.1414), "2.141"),
        (plain(6.2), "6.200"),
        (plain(0), "0"),
        (seconds(0.2536), f"254{SPACE}ms"),
        (seconds(47.9), f"47.9{SPACE}s"),
        (seconds(3725), "62 min 5 s"),
        (size(979279872), f"934{SPACE}MiB"),
        (usd(0), "$0.00"),
        (usd(1234.5), "$1,234.50"),
        (usd(0.0123), "$0.012"),
        (change(100, 112.34), f"+12.3{SPACE}%"),
        (change(100, 31), f"\N{MINUS SIGN}69.0{SPACE}%"),
        (change(3, 3), "the same"),
        (change(0, 3), "was 0"),
    ],
)
def test_numbers_are_written_as_a_person_would(shown: str, expected: str) -> None:
    assert shown.replace(" ", SPACE) == expected.replace(" ", SPACE)
