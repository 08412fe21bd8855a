"""The documentation: its links lead somewhere, its reference pages are what the product is, and a site comes of it."""

from pathlib import Path

import pytest

from tools.docs import cli_page, links, settings_page, tree
from tools.docs.__main__ import GENERATED, PROJECT, build, pages


def test_every_link_of_every_page_leads_somewhere() -> None:
    assert list(links.problems(pages(PROJECT), lambda path: (PROJECT / path).exists())) == []


@pytest.mark.parametrize("name", GENERATED)
def test_reference_pages_say_what_is_there_now(name: str) -> None:
    assert (PROJECT / name).read_text() == GENERATED[name](), "`make docs` writes it anew"


def test_every_page_is_reached_from_the_sites_menu() -> None:
    menu = (PROJECT / "tools" / "docs" / "site.toml").read_text()
    assert [path for path in tree.site_pages(pages(PROJECT)) if f'"{path}"' not in menu] == []


def test_the_site_is_built_and_asks_nobody_for_a_font(tmp_path: Path) -> None:
    assert build(pages(PROJECT), tmp_path / "site") == 0
    page = (tmp_path / "site" / "capacity" / "index.html").read_text()
    assert "<h2" in page
    assert "fonts.googleapis" not in page
    assert '<pre class="mermaid">' in (tmp_path / "site" / "architecture" / "index.html").read_text()


def test_a_link_that_leads_nowhere_is_named() -> None:
    text = "# A\n[x](b.md#two) [y](missing.md) [z](b.md#none) [w](#a) ![p](p.png) [e](https://example.com/)\n"
    text += "```\n[not](a-link.md)\n```\n"
    found = list(links.problems({"docs/a.md": text, "docs/b.md": "## Two\n"}, lambda path: path == "docs/p.png"))
    assert found == [
        "docs/a.md: (missing.md) leads nowhere: there is no docs/missing.md",
        "docs/a.md: (b.md#none) leads nowhere: docs/b.md has no heading #none",
    ]


def test_an_anchor_that_github_and_the_site_make_differently_is_none() -> None:
    assert links.anchors("## `--json` and more\n## Costs & guards\n## A cluster, a network\n") == {
        "a-cluster-a-network"
    }


def test_links_within_the_site_follow_its_pages() -> None:
    found = tree.site_pages(
        {
            "README.md": "[a](docs/a.md#x), [folder](docs/iam/) and [code](infra/zones.py), [web](https://example.com/)",
            "docs/iam/README.md": "[up](../a.md) [readme](../../README.md) [`p.json`](p.json)",
            "docs/a.md": "",
        }
    )
    assert (
        found["index.md"]
        == "[a](a.md#x), [folder](iam/index.md) and code (`infra/zones.py`), [web](https://example.com/)"
    )
    assert found["iam/index.md"] == "[up](../a.md) [readme](../index.md) [`p.json`](p.json)"


def test_settings_are_listed_by_their_groups_with_defaults() -> None:
    text = """name: x
config:
  first:
    type: string
    description: "a | b <c>"
    default: ""
  # second room: and what it is
  # a further line
  list:
    type: array
    items:
      type: string
    description: some
    default: []
  needed:
    type: integer
    description: one
"""
    page = settings_page.page(text)
    assert "## Every stack" in page
    assert "| `first` | string | empty | a \\| b &lt;c> |" in page
    assert "## Second room" in page
    assert "| `list` | list of strings | `[]` | some |" in page
    assert "| `needed` | integer | required | one |" in page


def test_every_command_and_every_one_below_it_has_an_example() -> None:
    parts = cli_page.page().split("\n## ")[1:]
    assert len(parts) > 15
    assert [part.partition("\n")[0] for part in parts if "example:" not in part or "exit codes:" not in part] == []
