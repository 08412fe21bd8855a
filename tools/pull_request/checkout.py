"""The base of a pull request beside its head, so that its program can be previewed too."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.setup import pins
from tools.setup.console import SetupError
from workload.errors import ReportedError


def checked_out(commit: str, folder: Path, project: Path = pins.PROJECT) -> Path:
    """A worktree of `commit` in `folder`, with an environment to run its program in.

    Where its packages are others than the project's it installs them, which runs their code: not beside credentials.
    """
    git(project, "worktree", "prune")  # a runner of one's own keeps the repository and empties such folders
    git(project, "worktree", "add", "--detach", "--quiet", str(folder), commit)
    lock = pins.LOCK.name
    if (folder / lock).exists() and (folder / lock).read_bytes() == (project / lock).read_bytes():
        (folder / ".venv").symlink_to(project / ".venv")
        return folder
    # Its packages are others: an environment of its own.
    done = subprocess.run(["sh", "tools/bootstrap.sh"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SetupError(f"the base's environment could not be made: {done.stderr.strip()[-800:]}")
    return folder


@contextmanager
def for_a_while(commit: str, folder: Path, project: Path = pins.PROJECT) -> Iterator[Path]:
    """The same, gone at the end."""
    try:
        yield checked_out(commit, folder, project)
    finally:
        if folder.exists():
            git(project, "worktree", "remove", "--force", str(folder))


def changed_paths(base: str, head: str, project: Path = pins.PROJECT) -> list[str]:
    """What `head` changes since it left `base`; both names of a file that was moved."""
    listed = git(project, "diff", "--name-only", "--no-renames", "-z", f"{base}...{head}")
    return [path for path in listed.split("\0") if path]


def text_at(commit: str, path: str, project: Path = pins.PROJECT) -> str:
    return git(project, "show", f"{commit}:{path}")


def files_at(commit: str, project: Path = pins.PROJECT) -> list[str]:
    """Those at the top of the tree."""
    return [path for path in git(project, "ls-tree", "--name-only", "-z", commit).split("\0") if path]


def git(project: Path, *command: str) -> str:
    done = subprocess.run(["git", *command], cwd=project, capture_output=True, text=True)
    if done.returncode:
        raise ReportedError(f"git {' '.join(command)}: {done.stderr.strip()[-400:]}")
    return done.stdout
