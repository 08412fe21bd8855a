"""PURE: the building blocks of a page: sections, figures, tables, what is missing."""

from collections.abc import Iterable, Mapping, Sequence

from report.markup import Child, Html, joined, tag
from report.run import Run

_LONG_TABLE = 60

Cell = str | Html | None


def section(identity: str, title: str, *children: Child) -> Html:
    return tag(
        "section", tag("h2", title, id=f"{identity}-title"), *children, id=identity, aria_labelledby=f"{identity}-title"
    )


def missing(why: str) -> Html:
    """What a page says in the place of what it cannot show."""
    return tag("p", sentence(why), class_="missing")


def sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!")) else ".")


def figure(caption: str, drawing: Html, *below: Child, note: str = "") -> Html:
    return tag(
        "figure",
        tag("figcaption", tag("strong", caption), [Html(" "), tag("span", note)] if note else None),
        drawing,
        *below,
    )


def legend(entries: Iterable[tuple[str, str]]) -> Html:
    """(look, words) of each series."""
    return tag(
        "ul",
        [tag("li", tag("span", class_=f"key {look}", aria_hidden="true"), words) for look, words in entries],
        class_="legend",
    )


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    numbers: bool = True,
    row_heads: bool = True,
    class_: str = "",
    marked: Sequence[bool] = (),
) -> Html:
    """A table that scrolls by itself where it is too wide. `marked` rows stand out."""
    marks = marked or [False] * len(rows)
    body = [
        tag(
            "tr",
            [_cell(cell, head_=row_heads and not at) for at, cell in enumerate(row)],
            class_="differs" if mark else None,
        )
        for row, mark in zip(rows, marks, strict=True)
    ]
    kind = " ".join(filter(None, ("numbers" if numbers else "", class_)))
    inner = tag(
        "table",
        tag("thead", tag("tr", [tag("th", name, scope="col") for name in head])),
        tag("tbody", body),
        class_=kind or None,
        aria_label=caption,
    )
    # Apart from the table, so that it stays in sight where the table is scrolled.
    title = tag("p", caption, class_="caption", aria_hidden="true")
    return joined(title, tag("div", inner, class_="scroll", role="group", aria_label=caption, tabindex=0))


def data_of(caption: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], *, of: str = "") -> Html:
    """The table behind a drawing, folded away; of a long one every so manieth row and the last."""
    each = -(-len(rows) // _LONG_TABLE) or 1
    shown = [*rows[::each], *([rows[-1]] if rows and (len(rows) - 1) % each else [])]
    said = caption if each == 1 else f"{caption}, every {_nth(each)} row"
    return tag("details", tag("summary", f"Data as a table{of}"), table(said, head, shown), class_="data")


def definitions(rows: Iterable[tuple[str, Cell]], class_: str = "facts") -> Html:
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value or "-")) for name, value in rows], class_=class_)


def per_run(runs: Sequence[Run], parts: Sequence[Html], *, beside: bool = True) -> Html:
    """What each run has of its own: as it is, or side by side, or one below the other, under the runs' names."""
    if len(runs) == 1:
        return parts[0]
    cells = [tag("div", tag("h3", badge(run), f" {run.named}"), part) for run, part in zip(runs, parts, strict=True)]
    return tag("div", cells, class_="pair" if beside else "stack")


def badge(run: Run) -> Html:
    return tag("span", run.label, class_=f"badge {run.label.lower()}", aria_hidden="true") if run.label else Html("")


def look(run: Run) -> str:
    return "b" if run.label == "B" else "a"


def reasons(said: Sequence[str], shown: int = 6) -> Html:
    """The first of them, and the others folded away."""
    first = tag("ul", [tag("li", one) for one in said[:shown]], class_="reasons")
    if len(said) <= shown:
        return first
    rest = tag("ul", [tag("li", one) for one in said[shown:]], class_="reasons")
    return joined(first, tag("details", tag("summary", f"{len(said) - shown} more reasons"), rest))


def counted(count: int, what: str, several: Mapping[str, str] | None = None) -> str:
    if count == 1:
        return f"1 {what}"
    return f"{count:,} {(several or {}).get(what, what + 's')}"


def _cell(cell: Cell, *, head_: bool) -> Html:
    return tag("th", cell, scope="row") if head_ else tag("td", "-" if cell is None else cell)


def _nth(number: int) -> str:
    ending = "th" if 10 < number % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
