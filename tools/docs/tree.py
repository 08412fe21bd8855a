"""PURE: the project's pages as the site has them: README is its first page, and links lead to pages alone."""

import posixpath
import re
from collections.abc import Mapping

from tools.docs.links import LINK

MOVED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "policy/README.md": "policy.md"}


def site_path(path: str) -> str | None:
    """Where a file of the project stands in the site; None for one that is no page."""
    if path in MOVED:
        return MOVED[path]
    if not path.startswith("docs/") or not posixpath.splitext(path)[1]:
        return None
    return path.removeprefix("docs/").replace("/README.md", "/index.md")


def site_pages(pages: Mapping[str, str]) -> dict[str, str]:
    """Texts by their paths in the site. A link to a file that is no page there becomes that file's path."""
    return {site: _text(path, site, text) for path, text in pages.items() if (site := site_path(path)) is not None}


def _text(path: str, site: str, text: str) -> str:
    def link(found: re.Match[str]) -> str:
        shown, target = found[1], found[2]
        if "://" in target or target.startswith(("#", "mailto:")):
            return found[0]
        to, mark, anchor = target.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(path), to))
        page = site_path(there) or site_path(f"{there}/README.md")
        if page is None:
            name = shown.strip("![]")
            return name if name.strip("`") == there else f"{name} (`{there}`)"
        return f"{shown}({posixpath.relpath(page, posixpath.dirname(site) or '.')}{mark}{anchor})"

    return LINK.sub(link, text)
