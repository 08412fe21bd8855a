"""PURE: the colours of a page, light and dark, and which of them are read upon which."""

from collections.abc import Mapping

Palette = Mapping[str, str]

LIGHT: Palette = {
    "page": "#f6f7f9",
    "card": "#ffffff",
    "sunk": "#eef1f4",
    "line": "#d5dbe1",
    "text": "#18202a",
    "muted": "#556170",
    "link": "#0b57b5",
    "a": "#0b62c4",
    "b": "#a8480a",
    "held": "#6b4bb0",
    "good": "#12653a",
    "good-tint": "#e5f4ea",
    "bad": "#a3142a",
    "bad-tint": "#fdebed",
    "open": "#7a4d00",
    "open-tint": "#fdf2da",
    "near": "#47535f",
    "near-tint": "#e9edf1",
    "a-tint": "#e3eefb",
    "b-tint": "#fbebdf",
}

DARK: Palette = {
    "page": "#0e1318",
    "card": "#161d24",
    "sunk": "#1f2831",
    "line": "#33404c",
    "text": "#e7ebef",
    "muted": "#a3b0bd",
    "link": "#86b9ff",
    "a": "#79b0ff",
    "b": "#ffa866",
    "held": "#c4a8ff",
    "good": "#77d99b",
    "good-tint": "#122b1d",
    "bad": "#ff9ba3",
    "bad-tint": "#351a1f",
    "open": "#f1c469",
    "open-tint": "#302512",
    "near": "#b9c5d0",
    "near-tint": "#252f39",
    "a-tint": "#152a45",
    "b-tint": "#38230f",
}

READ_UPON = (
    *((ink, ground) for ink in ("text", "muted", "link") for ground in ("page", "card", "sunk")),
    *((ink, "card") for ink in ("a", "b", "held", "good", "bad", "open")),
    *((state, f"{state}-tint") for state in ("good", "bad", "open", "near", "a", "b")),
    *(("text", f"{state}-tint") for state in ("good", "bad", "open", "near", "a", "b")),
)
"""(ink, ground): every pair in which text is set; lines of charts are read upon cards."""


def contrast(ink: str, ground: str) -> float:
    """From 1 to 21, of two `#rrggbb`, as WCAG 2 defines it."""
    darker, lighter = sorted((_luminance(ink), _luminance(ground)))
    return (lighter + 0.05) / (darker + 0.05)


def variables(palette: Palette) -> str:
    """As CSS custom properties."""
    return ";".join(f"--{name}:{colour}" for name, colour in palette.items())


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
