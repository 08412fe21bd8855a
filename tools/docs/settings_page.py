"""docs/reference/settings.md from Pulumi.yaml, which is the only place that declares a setting."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

INTRODUCTION = """# Settings

<!-- written by `make docs` from Pulumi.yaml, not by hand -->

What a stack may set in `Pulumi.STACK.yaml`, with the prefix `ray-train-efa:` there; `pulumi config set KEY VALUE` does
it. A setting that does not exist, or a value that cannot be used, stops the program before the first resource.
Region, credentials and tags of AWS are Pulumi's own: `aws:region`, `aws:profile`, `aws:assumeRoles`,
`aws:allowedAccountIds`, `aws:defaultTags`.
"""
_GROUP = re.compile(r"  # (.+)")
_KEY = re.compile(r"  (\w+):")


def page(project_file: str) -> str:
    """The page's Markdown. `project_file` is the text of Pulumi.yaml."""
    declared: dict[str, dict[str, Any]] = yaml.safe_load(project_file)["config"]
    parts = [INTRODUCTION]
    for title, keys in groups(project_file):
        rows = [_row(key, declared[key]) for key in keys]
        head = "| setting | type | default | what it is |\n|---|---|---|---|\n"
        parts.append(f"## {title}\n\n{head}" + "".join(rows))
    return "\n".join(parts)


def groups(project_file: str) -> Iterator[tuple[str, list[str]]]:
    """Titles and their settings in the file's order: a comment between settings begins a group."""
    title, keys, commented = "Every stack", list[str](), False
    for line in project_file.partition("\nconfig:\n")[2].splitlines():
        if found := _GROUP.fullmatch(line):
            # A comment's further lines say no more than the page's introduction.
            if not commented:
                if keys:
                    yield title, keys
                title, keys = _titled(found[1]), []
            commented = True
        elif found := _KEY.match(line):
            keys.append(found[1])
            commented = False
    yield title, keys


def _titled(comment: str) -> str:
    name = re.split(r"[:,]", comment)[0].strip()
    return name[0].upper() + name[1:]


def _row(key: str, setting: dict[str, Any]) -> str:
    default = setting.get("default")
    shown = "required" if "default" not in setting else f"`{json.dumps(default)}`" if default != "" else "empty"
    kind = setting["type"]
    if kind == "array":
        kind = f"list of {setting['items']['type']}s"
    what = str(setting["description"]).replace("|", "\\|").replace("<", "&lt;")
    return f"| `{key}` | {kind} | {shown} | {what} |\n"
