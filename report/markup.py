"""PURE: HTML and SVG in which every text is escaped unless it is `Html` already."""

import html
import unicodedata
from collections.abc import Iterable
from typing import TypeAlias

VOID = frozenset({"meta", "br", "hr"})
_CONTROL = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


class Html(str):
    """Text that is markup."""

    __slots__ = ()


Child: TypeAlias = str | Iterable[str | None] | None


def text(value: object) -> Html:
    """Escaped. What does not print, or turns the direction of what follows, is spelled out: `\\u202e`."""
    if isinstance(value, Html):
        return value
    plain = "".join(_printing(letter) for letter in str(value))
    return Html(html.escape(plain, quote=True))


def tag(element: str, /, *children: Child, **attributes: "str | int | float | bool | None") -> Html:
    """`class_` is `class`, `aria_label` is `aria-label`; None and False leave an attribute out, True leaves it bare."""
    said = "".join(_attribute(key, value) for key, value in attributes.items())
    if element in VOID:
        return Html(f"<{element}{said}>")
    return Html(f"<{element}{said}>{joined(*children)}</{element}>")


def joined(*children: Child) -> Html:
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        parts += [text(child)] if isinstance(child, str) else [text(one) for one in child if one is not None]
    return Html("".join(parts))


def _attribute(key: str, value: "str | int | float | bool | None") -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    shown = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {name}="{text(shown)}"'


def _printing(letter: str) -> str:
    if letter in "\n\t" or unicodedata.category(letter) not in _CONTROL:
        return letter
    return f"\\u{ord(letter):04x}"
