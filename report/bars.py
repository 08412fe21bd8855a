"""PURE: horizontal bars as SVG, with an axis, once for wide and once for narrow screens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from report.markup import Html, joined, tag
from report.units import tick_labels, ticks

_FONT = 13
_BAR = 14

Across = Callable[[float], float]


@dataclass(frozen=True, kw_only=True)
class Bar:
    """`until` is a second, larger value that a thin line leads to. `look` is the class that colours it."""

    label: str
    value: float
    told: str
    look: str = "a"
    until: float | None = None
    joins: bool = False
    """Whether it belongs to the bar above it, and stands closer."""


@dataclass(frozen=True, kw_only=True)
class Marker:
    """A line across all bars."""

    label: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Bars:
    """`identity` is unique within a page."""

    identity: str
    title: str
    summary: str
    x_title: str
    bars: Sequence[Bar]
    markers: Sequence[Marker] = ()


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """`labels` is the width of what stands left of the bars; where it is 0, labels are above them."""

    width: int
    labels: int
    row: int
    ticks: int
    told: int = 100


_WIDE = _Frame(width=920, labels=230, row=30, ticks=6)
_NARROW = _Frame(width=340, labels=0, row=44, ticks=3, told=10)


def drawn(chart: Bars) -> Html:
    if not chart.bars:
        return Html("")
    return joined(_svg(chart, _WIDE, "wide"), _svg(chart, _NARROW, "narrow"))


def _svg(chart: Bars, frame: _Frame, size: str) -> Html:
    name = f"{chart.identity}-{size}"
    largest = max([*(bar.until or bar.value for bar in chart.bars), *(marker.value for marker in chart.markers)])
    values = ticks(0.0, largest or 1.0, frame.ticks)
    left, right = frame.labels + 2, frame.width - frame.told
    top = 8 + 18 * len(chart.markers)
    places, floor = _places(chart.bars, top, frame)

    def across(value: float) -> float:
        return round(left + value / values[-1] * (right - left), 1)

    return tag(
        "svg",
        tag("title", chart.title, id=f"{name}-title"),
        tag("desc", chart.summary, id=f"{name}-desc"),
        [
            joined(
                tag("line", class_="grid", x1=across(value), x2=across(value), y1=top, y2=floor),
                tag("text", label, class_="tick", x=across(value), y=floor + 18, text_anchor="middle"),
            )
            for value, label in zip(values, tick_labels(values), strict=True)
        ],
        tag("text", chart.x_title, class_="axis-title", x=right, y=floor + 40, text_anchor="end"),
        [_row(bar, y, frame, across) for bar, y in zip(chart.bars, places, strict=True)],
        [_marked(marker, number, floor, frame, across) for number, marker in enumerate(chart.markers)],
        class_=f"chart bars {size}",
        viewBox=f"0 0 {frame.width} {floor + 48}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        font_size=_FONT,
    )


def _places(rows: Sequence[Bar], top: float, frame: _Frame) -> tuple[list[float], float]:
    """Where each row begins, and where the last one ends."""
    apart = any(bar.joins for bar in rows)
    places, y = [], top
    for number, bar in enumerate(rows):
        if apart and number and not bar.joins:
            y += 10
        places.append(y)
        y += frame.row - (8 if apart and frame.labels else 0)
    return places, y + 4


def _row(bar: Bar, y: float, frame: _Frame, across: Across) -> Html:
    above = frame.labels == 0
    at = y + (22 if above else (frame.row - _BAR) / 2)
    start, end = across(0), across(bar.value)
    middle = at + _BAR / 2
    whisker = None
    if bar.until is not None and bar.until > bar.value:
        far = across(bar.until)
        whisker = joined(
            tag("line", class_="whisker", x1=end, x2=far, y1=middle, y2=middle),
            tag("line", class_="whisker", x1=far, x2=far, y1=middle - 5, y2=middle + 5),
        )
        end_of_all = far
    else:
        end_of_all = end
    words = (
        joined(
            tag("text", bar.label, class_="label", x=start, y=at - 6),
            tag("text", bar.told, class_="told", x=frame.width - frame.told, y=at - 6, text_anchor="end"),
        )
        if above
        else joined(
            tag("text", bar.label, class_="label", x=frame.labels - 10, y=middle + 4.5, text_anchor="end"),
            tag("text", bar.told, class_="told", x=end_of_all + 8, y=middle + 4.5),
        )
    )
    body = tag("rect", class_=f"bar {bar.look}", x=start, y=at, width=max(1.0, end - start), height=_BAR, rx=2)
    return joined(body, whisker, words)


def _marked(marker: Marker, number: int, floor: float, frame: _Frame, across: Across) -> Html:
    x, y = across(marker.value), 16 + 18 * number
    to_the_left = x > frame.width / 2
    return joined(
        tag("line", class_="marker", x1=x, x2=x, y1=y - 10, y2=floor),
        tag(
            "text",
            marker.label,
            class_="marker",
            x=x - 6 if to_the_left else x + 6,
            y=y,
            text_anchor="end" if to_the_left else "start",
        ),
    )
