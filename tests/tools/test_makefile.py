"""The Makefile as a user meets it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.setup import pins

TARGETS = re.search(r"^\.PHONY: (.*)$", (pins.PROJECT / "Makefile").read_text(), re.MULTILINE)[1].split()  # type: ignore[index]


def make(*arguments: str, cwd: Path = pins.PROJECT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "--no-print-directory", *arguments], cwd=cwd, capture_output=True, text=True)


def test_make_alone_lists_every_target_with_what_it_does() -> None:
    lines = make().stdout.splitlines()
    assert [line.split()[1] for line in lines] == TARGETS
    assert all(len(line.split()) > 3 for line in lines), "each needs a description"


@pytest.mark.parametrize("target", TARGETS)
def test_a_dry_run_of_any_target_works_in_a_bare_clone_and_changes_nothing(target: str, tmp_path: Path) -> None:
    shutil.copy(pins.PROJECT / "Makefile", tmp_path)
    done = make("-n", target, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["Makefile"]


def test_the_stack_is_a_choice(tmp_path: Path) -> None:
    shutil.copy(pins.PROJECT / "Makefile", tmp_path)
    assert "efactl up -s local" in make("-n", "up", cwd=tmp_path).stdout
    assert "efactl up -s dev" in make("-n", "up", "STACK=dev", cwd=tmp_path).stdout


def test_a_set_up_that_fails_stops_make_before_anything_else() -> None:
    done = make("up", "PYTHON=/nowhere/python3")
    assert done.returncode != 0
    assert "PYTHON=/nowhere/python3 cannot be used" in done.stderr
    assert not done.stdout
