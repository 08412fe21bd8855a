"""`make docs`: the reference pages written anew, every link looked at, and the site built into .state/site."""

import shutil
import subprocess
import sys
from pathlib import Path

from tools.docs import cli_page, exit_codes_page, links, settings_page, tree
from tools.setup import pins

PROJECT = pins.PROJECT
SITE = PROJECT / ".state" / "site"
GENERATED = {
    "docs/reference/settings.md": lambda: settings_page.page((PROJECT / "Pulumi.yaml").read_text(encoding="utf-8")),
    "docs/reference/efactl.md": cli_page.page,
    "docs/exit-codes.md": exit_codes_page.page,
}


def main() -> int:
    for name, page in GENERATED.items():
        (PROJECT / name).parent.mkdir(parents=True, exist_ok=True)
        (PROJECT / name).write_text(page(), encoding="utf-8")
    found = pages(PROJECT)
    broken = list(links.problems(found, lambda path: (PROJECT / path).exists()))
    for line in broken:
        print(f"docs: {line}", file=sys.stderr)
    if broken:
        return 1
    status = build(found, SITE)
    led = sum(len(links.targets(text)) for text in found.values())
    print(f"docs: {len(found)} pages, {led} links; {SITE.relative_to(PROJECT) / 'index.html'}")
    return status


def pages(project: Path) -> dict[str, str]:
    """Every page for readers, by its path in the project."""
    files = [project / name for name in tree.MOVED] + sorted((project / "docs").rglob("*.md"))
    return {file.relative_to(project).as_posix(): file.read_text(encoding="utf-8") for file in files}


def build(found: dict[str, str], site: Path) -> int:
    """Into `site`, which is emptied; its sources stand beside it. The builder's exit status."""
    sources = site.with_name(f"{site.name}-sources")
    for folder in (site, sources):
        shutil.rmtree(folder, ignore_errors=True)
    for path, text in tree.site_pages(found).items():
        file = sources / "docs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for picture in (path for path in (PROJECT / "docs").rglob("*") if path.suffix in (".png", ".svg", ".json")):
        copy = sources / "docs" / picture.relative_to(PROJECT / "docs")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, copy)
    shutil.copyfile(PROJECT / "tools" / "docs" / "site.toml", sources / "zensical.toml")
    builder = Path(sys.executable).with_name("zensical")
    done = subprocess.run([builder, "build", "--strict"], cwd=sources, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr, file=sys.stderr)
        return done.returncode
    (sources / "site").replace(site)
    return 0


if __name__ == "__main__":
    sys.exit(main())
