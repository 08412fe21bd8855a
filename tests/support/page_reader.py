"""A page as a reader without eyes, or a browser's parser, has it: elements in order, their attributes, their text."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})


@dataclass(kw_only=True)
class Element:
    name: str
    attributes: dict[str, str]
    parent: "Element | None"
    children: list["Element | str"] = field(default_factory=list)

    @property
    def text(self) -> str:
        parts = [one if isinstance(one, str) else one.text for one in self.children]
        return " ".join(" ".join(parts).split())

    def all(self, *names: str) -> Iterator["Element"]:
        """Those below it of these names, in order; all without a name."""
        for child in self.children:
            if isinstance(child, Element):
                if not names or child.name in names:
                    yield child
                yield from child.all(*names)

    def inside(self, name: str) -> bool:
        above = self.parent
        while above is not None and above.name != name:
            above = above.parent
        return above is not None


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.now = Element(name="", attributes={}, parent=None)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(name=tag, attributes={name: value or "" for name, value in attrs}, parent=self.now)
        self.now.children.append(element)
        if tag not in VOID:
            self.now = element

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.now.name, f"</{tag}> closes <{self.now.name}>"
        assert self.now.parent is not None
        self.now = self.now.parent

    def handle_data(self, data: str) -> None:
        self.now.children.append(data)


def read(page: str) -> Element:
    """Fails where an element is closed by another's tag, or not at all."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.now is reader.root, f"<{reader.now.name}> is not closed"
    return reader.root
