"""Which stacks a pull request touches."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.project import ROOT
from tools.pull_request.touched import default_platform, platform_of, removed, touched

PLATFORMS = {"dev": "eks", "laptop": "local", "cluster": "kubernetes"}


@pytest.mark.parametrize(
    ("paths", "stacks"),
    [
        (["docs/eks.md", "tests/pure/test_cost.py", "README.md", "tools/lock.py", "efactl/stack.py"], []),
        (["Pulumi.dev.yaml"], ["dev"]),
        (["infra/local_nodes.py"], ["laptop"]),
        (["infra/network.py"], ["cluster", "dev", "laptop"]),
        (["capacity/file_backend.py"], ["cluster", "dev", "laptop"]),
        (["training/train.py"], ["cluster", "dev", "laptop"]),
        (["policy/rules/efa.py", "docs/Pulumi.dev.yaml"], ["cluster", "dev", "laptop"]),
    ],
)
def test_a_stack_is_touched_by_its_settings_and_by_what_its_program_is_made_of(
    paths: list[str], stacks: list[str]
) -> None:
    assert [one.stack for one in touched(paths, PLATFORMS)] == stacks


def test_why_is_told_and_what_cannot_be_previewed_is_known() -> None:
    found = {one.stack: one for one in touched(["infra/a.py", "infra/b.py", "infra/c.py", "infra/d.py"], PLATFORMS)}
    assert found["dev"].why == "infra/a.py, infra/b.py, infra/c.py and 1 more"
    assert [name for name, one in found.items() if not one.previewed] == ["cluster"]
    assert removed(["Pulumi.gone.yaml", "Pulumi.dev.yaml", "Pulumi.yaml"], PLATFORMS) == ["gone"]


def test_a_platform_is_read_without_a_yaml_parser() -> None:
    assert platform_of("config:\n  ray-train-efa:platform: 'eks' # there\n", "local") == "eks"
    assert platform_of("config: {}\n", "local") == "local"
    assert default_platform("config:\n  platform:\n    type: string\n    default: local\n  other:\n") == "local"


def test_every_file_that_the_program_imports_is_part_of_it() -> None:
    files = program()
    assert {"infra/last_run.py", "capacity/file_backend.py"} <= files, "imports are followed"
    assert "capacity/aws.py" in files, "those inside functions too"
    assert sorted(path for path in files if not touched([path], {"laptop": "local"})) == []


def program() -> set[str]:
    """The project's files that a run of the program can reach, by its own imports."""
    found: set[Path] = set()
    ahead = [ROOT / "__main__.py", *(ROOT / "training").glob("*.py"), *(ROOT / "policy").rglob("*.py")]
    while ahead:
        file = ahead.pop()
        if file not in found:
            found.add(file)
            ahead += imported(file)
    return {str(file.relative_to(ROOT)) for file in found}


def imported(file: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        for name in names:
            path = ROOT.joinpath(*name.split("."))
            yield from (one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file())
