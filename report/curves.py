"""PURE: curves as SVG: axes with ticks, units and titles; once for wide and once for narrow screens."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from report.markup import Html, joined, tag
from report.units import plain, tick_labels, ticks

MOST_POINTS = 360
_FONT = 13
_LINED = 4

Point = tuple[float, float]
Place = Callable[[Point], Point]


@dataclass(frozen=True, kw_only=True)
class Series:
    """`look`: the class that gives it its colour and dashes; `marks` draws its points as well."""

    name: str
    points: Sequence[Point]
    look: str
    marks: bool = False


@dataclass(frozen=True, kw_only=True)
class Chart:
    """`identity` is unique within a page. With `from_zero` the vertical axis begins at 0."""

    identity: str
    title: str
    summary: str
    x_title: str
    y_title: str
    series: Sequence[Series]
    from_zero: bool = False


@dataclass(frozen=True, kw_only=True)
class _Frame:
    width: int
    height: int
    left: int
    x_ticks: int
    y_ticks: int
    right: int = 14
    top: int = 34
    bottom: int = 50


_WIDE = _Frame(width=920, height=320, left=66, x_ticks=10, y_ticks=5)
_NARROW = _Frame(width=340, height=270, left=54, x_ticks=4, y_ticks=4)


def drawn(chart: Chart) -> Html:
    """Nothing where no series has a point."""
    series = [one for one in chart.series if one.points]
    if not series:
        return Html("")
    return joined(_svg(chart, series, _WIDE, "wide"), _svg(chart, series, _NARROW, "narrow"))


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> tuple[list[Point], int]:
    """At most so many: each the median of as many neighbours, at the last one's place; and how many those are."""
    each = -(-len(points) // most) if points else 1
    if each <= 1:
        return list(points), 1
    groups = [points[at : at + each] for at in range(0, len(points), each)]
    return [(group[-1][0], statistics.median(y for _, y in group)) for group in groups], each


def _svg(chart: Chart, series: Sequence[Series], frame: _Frame, size: str) -> Html:
    name = f"{chart.identity}-{size}"
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, y in one.points]
    x_low, x_high = _x_range(xs)
    x_ticks = _x_ticks(x_low, x_high, frame.x_ticks) if min(xs) < max(xs) else [xs[0]]
    y_ticks = ticks(0.0 if chart.from_zero else min(ys), max(ys), frame.y_ticks)
    right, floor = frame.width - frame.right, frame.height - frame.bottom

    def place(point: Point) -> tuple[float, float]:
        x = frame.left + (point[0] - x_low) / (x_high - x_low) * (right - frame.left)
        y = floor - (point[1] - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * (floor - frame.top)
        return round(x, 1), round(y, 1)

    return tag(
        "svg",
        tag("title", chart.title, id=f"{name}-title"),
        tag("desc", chart.summary, id=f"{name}-desc"),
        _y_axis(y_ticks, place, frame, x_low),
        _x_axis(x_ticks, place, frame, y_ticks[0]),
        tag("text", chart.y_title, class_="axis-title", x=2, y=16),
        tag(
            "text",
            chart.x_title,
            class_="axis-title",
            x=right,
            y=frame.height - 8,
            text_anchor="end",
        ),
        [_curve(one, place) for one in series],
        class_=f"chart {size}",
        viewBox=f"0 0 {frame.width} {frame.height}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        font_size=_FONT,
    )


def _curve(series: Series, place: Place) -> Html:
    spots = [place(point) for point in series.points]
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in spots)
    # A path of one point draws nothing.
    dots = [tag("circle", cx=x, cy=y, r=4) for x, y in spots] if series.marks or len(spots) == 1 else []
    look = f"series {series.look} marks" if series.marks else f"series {series.look}"
    # Between two marks a line would tell of a way that nobody measured.
    line = None if series.marks and len(spots) < _LINED else tag("path", d=path)
    return tag("g", line, dots, class_=look)


def _y_axis(values: Sequence[float], place: Place, frame: _Frame, x_low: float) -> Html:
    lines = []
    for value, label in zip(values, tick_labels(values), strict=True):
        _, y = place((x_low, value))
        base = " base" if value == values[0] else ""
        lines.append(tag("line", class_=f"grid{base}", x1=frame.left, x2=frame.width - frame.right, y1=y, y2=y))
        lines.append(tag("text", label, class_="tick", x=frame.left - 8, y=y + 4.5, text_anchor="end"))
    return tag("g", lines)


def _x_axis(values: Sequence[float], place: Place, frame: _Frame, y_low: float) -> Html:
    marks = []
    for value, label in zip(values, tick_labels(values), strict=True):
        x, y = place((value, y_low))
        marks.append(tag("line", class_="grid base", x1=x, x2=x, y1=y, y2=y + 5))
        marks.append(tag("text", label, class_="tick", x=x, y=y + 20, text_anchor="middle"))
    return tag("g", marks)


def _x_ticks(low: float, high: float, about: int) -> list[float]:
    """Whole numbers within the range."""
    values = ticks(low, high, min(about, max(1, int(high - low))))
    return [value for value in values if low <= value <= high and value == int(value)] or [low, high]


def _x_range(xs: Sequence[float]) -> tuple[float, float]:
    low, high = min(xs), max(xs)
    if not high > low:
        return low - 1, high + 1
    return (0.0, high) if 0 < low <= high / 20 else (low, high)


def described(points: Sequence[Point]) -> str:
    """For those who do not see the curve."""
    if not points:
        return "no points"
    (first_x, first), (last_x, last) = points[0], points[-1]
    low, high = min(y for _, y in points), max(y for _, y in points)
    return (
        f"{len(points)} points, from {plain(first)} at {plain(first_x)} to {plain(last)} at {plain(last_x)}; "
        f"lowest {plain(low)}, highest {plain(high)}"
    )
