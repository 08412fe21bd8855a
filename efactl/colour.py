"""PURE: whether text may carry colours."""

from collections.abc import Mapping


def coloured(environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Never where the text goes into a pipe or file, nor with NO_COLOR (no-color.org) or a dumb terminal."""
    return terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
