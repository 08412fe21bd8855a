"""PURE: a drawing as a Mermaid flowchart, and its place in a page."""

import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from tools.diagram.boxes import Box, Drawing
from tools.diagram.resources import GraphError

BEGIN = "<!-- diagram: written by `make diagram`, not by hand -->"
END = "<!-- end of diagram -->"
# Narrower than Mermaid itself wraps.
_WIDTH = 24


def flowchart(drawing: Drawing) -> str:
    ids = _ids(drawing)
    arrows = [f"  {ids[edge.before]} {'-->' if edge.carries else '-.->'} {ids[edge.after]}" for edge in drawing.edges]
    return "\n".join(["flowchart TD", *_nested(drawing, drawing.boxes, ids), *arrows])


def into(page: str, drawing: Drawing) -> str:
    """The page with the drawing between its markers. Raises GraphError for a page without them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise GraphError(f"the page needs the lines {BEGIN} and {END} around the diagram")
    return f"{before}{BEGIN}\n```mermaid\n{flowchart(drawing)}\n```\n{END}{after}"


def _nested(drawing: Drawing, boxes: Sequence[Box], ids: Mapping[str, str], level: int = 0) -> list[str]:
    indent = "  " * (level + 1)
    groups: dict[str, list[Box]] = {}
    for box in boxes:
        groups.setdefault(box.frames[level] if len(box.frames) > level else "", []).append(box)
    lines: list[str] = []
    for frame, group in groups.items():
        if frame:
            inside = _nested(drawing, group, ids, level + 1)
            lines += [f'{indent}subgraph {ids[frame]}["{drawing.frames[frame]}"]', *inside, f"{indent}end"]
        else:
            lines += [f'{indent}{ids[box.urn]}["{_label(box)}"]' for box in group]
    return lines


def _label(box: Box) -> str:
    """The component's name above what it makes; a resource without a component makes itself."""
    if box.kinds == ((box.title, 1),):
        return box.title
    # Wrapped between kinds, not after a number: textwrap leaves no-break spaces alone.
    made = ", ".join(f"{count}\N{NO-BREAK SPACE}{kind}" if count > 1 else kind for kind, count in box.kinds)
    lines = textwrap.wrap(made, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "<br>".join([box.title, *lines]).replace("\N{NO-BREAK SPACE}", " ")


def _ids(drawing: Drawing) -> dict[str, str]:
    """By URN: the title, or where two have the same, the resource's name with it."""
    titles = {**drawing.frames, **{box.urn: box.title for box in drawing.boxes}}
    many = Counter(titles.values())
    return {
        urn: title if many[title] == 1 else re.sub(r"\W", "_", f"{title}_{urn.rpartition('::')[2]}")
        for urn, title in titles.items()
    }
