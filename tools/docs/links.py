"""PURE: the links of Markdown pages: whether what they lead to is there."""

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping

# [text](target) and ![text](target); a target in Markdown holds no spaces.
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_ELSEWHERE = ("http://", "https://", "mailto:")


def problems(pages: Mapping[str, str], there: Callable[[str], bool]) -> Iterator[str]:
    """A line for each link that leads nowhere. `pages` are texts by path; `there` tells of any other file or folder."""
    for path, text in pages.items():
        known = anchors(text)
        for target in targets(text):
            to, _, anchor = target.partition("#")
            page = posixpath.normpath(posixpath.join(posixpath.dirname(path), to)) if to else path
            if page not in pages and not there(page):
                yield f"{path}: ({target}) leads nowhere: there is no {page}"
            elif anchor and page in pages and anchor not in (anchors(pages[page]) if to else known):
                yield f"{path}: ({target}) leads nowhere: {page} has no heading #{anchor}"


def targets(text: str) -> list[str]:
    """Those within the project, without what stands in fences."""
    return [found[2] for found in LINK.finditer(_FENCE.sub("", text)) if not found[2].startswith(_ELSEWHERE)]


def anchors(text: str) -> set[str]:
    """Of headings that have the same anchor on GitHub and on the built site; one that differs is none to link to."""
    found = set[str]()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        if _on_github(heading) == (anchor := _on_site(heading)):
            found.add(anchor)
    return found


def _plain(heading: str) -> str:
    return LINK.sub(lambda found: found[1].strip("![]"), heading).replace("`", "").strip()


def _on_github(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", _plain(heading).lower()).replace(" ", "-")


def _on_site(heading: str) -> str:
    """As Python-Markdown's table of contents makes it."""
    text = unicodedata.normalize("NFKD", _plain(heading)).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())
