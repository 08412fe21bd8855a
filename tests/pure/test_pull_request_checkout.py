"""The base of a pull request beside its head: what is installed for it, and what stays of it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.pull_request import checkout
from tools.setup.console import SetupError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose `main` was set up by a script that leaves `installed`, and whose head has other packages."""
    folder = tmp_path / "project"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools/bootstrap.sh").write_text("touch installed\n")
    (folder / "requirements.lock").write_text("one==1\n")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commit(folder)
    git(folder, "switch", "--quiet", "--create", "change")
    return folder


def git(folder: Path, *command: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *identity, *command], cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "m")


def test_a_base_with_the_same_packages_has_the_projects_environment(project: Path, tmp_path: Path) -> None:
    base = checkout.checked_out("main", tmp_path / "base", project)
    assert not (base / "installed").exists()
    assert (base / ".venv").is_symlink()


def test_a_base_whose_folder_was_emptied_in_between_is_checked_out_again(project: Path, tmp_path: Path) -> None:
    for _ in range(2):
        base = checkout.checked_out("main", tmp_path / "base", project)
        assert (base / "requirements.lock").exists()
        shutil.rmtree(base)


def test_a_base_with_other_packages_gets_its_own(project: Path, tmp_path: Path) -> None:
    (project / "requirements.lock").write_text("one==2\n")
    base = checkout.checked_out("main", tmp_path / "base", project)
    assert (base / "installed").exists()
    assert not (base / ".venv").exists()


def test_a_base_for_a_while_is_gone_at_the_end_whatever_happens(project: Path, tmp_path: Path) -> None:
    with checkout.for_a_while("main", tmp_path / "base", project) as base:
        assert (base / "requirements.lock").exists()
    (project / "requirements.lock").write_text("one==2\n")
    (project / "tools/bootstrap.sh").write_text("echo no such package >&2; exit 1\n")
    commit(project)
    (project / "requirements.lock").write_text("one==3\n")
    with (
        pytest.raises(SetupError, match="no such package"),
        checkout.for_a_while("change", tmp_path / "base", project),
    ):
        pass
    assert git(project, "worktree", "list").count("\n") == 1
    assert not (tmp_path / "base").exists()
