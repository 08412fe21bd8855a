"""This machine: Python and its packages, where the project lies, room, programs that help."""

import importlib
import importlib.metadata
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from efactl.doctor.finding import Finding, fail, ok, warn
from efactl.doctor.subject import Subject

# As tools/bootstrap.sh accepts them.
PYTHON_OLDEST, PYTHON_NEWEST = (3, 11), (3, 13)
_GIB = 1024**3
# Ray stops taking work where a disk is fuller than 95 %, and refuses to start below.
_LEAST_DISK, _SCARCE_DISK = 300 * 1024**2, 5 * _GIB
_UNQUOTED = re.compile(r"[\s'\"$`\\&;|<>()*?#]")
_SET_UP = "make setup"


def python(_subject: Subject) -> Iterator[Finding]:
    version = sys.version_info[:2]
    shown = f"{sys.version.split()[0]} ({sys.executable})"
    if PYTHON_OLDEST <= version <= PYTHON_NEWEST:
        yield ok("python", shown)
        return
    wanted = f"3.{PYTHON_OLDEST[1]} to 3.{PYTHON_NEWEST[1]}"
    yield fail(
        "python", f"{shown}: it must be Python {wanted}", f"make setup PYTHON=/path/to/python3.{PYTHON_NEWEST[1]}"
    )


def packages(subject: Subject) -> Iterator[Finding]:
    """What is installed against requirements.lock, package by package."""
    try:
        lock = (subject.folder / "requirements.lock").read_text(encoding="utf-8")
    except OSError as error:
        yield fail("packages", f"requirements.lock cannot be read: {error.strerror}", "restore it: git checkout it")
        return
    other = []
    pinned = pins(lock)
    for name, version in pinned.items():
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed = "missing"
        if installed != version:
            other.append(f"{name} {installed} (pinned: {version})")
    if not other:
        yield ok("packages", f"all {len(pinned)} as requirements.lock pins them")
        return
    more = f" and {len(other) - 5} more" if len(other) > 5 else ""
    yield fail("packages", f"{', '.join(other[:5])}{more}, in {sys.prefix}", _SET_UP)


def pins(lock: str) -> dict[str, str]:
    """The version of each package that a hashed requirements file pins for this interpreter."""
    found = re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)(?:\s*;\s*([^\\\n]+?))?\s*\\?$", lock, re.MULTILINE)
    return {name: version for name, version, marker in found if not marker or _holds(marker)}


def _holds(marker: str) -> bool:
    """Where nothing can tell, it does not: the package is then not looked for."""
    try:
        markers = importlib.import_module("packaging.markers")
    except ImportError:
        return False
    return bool(markers.Marker(marker).evaluate())


def place(subject: Subject) -> Iterator[Finding]:
    """Ray starts workers through a shell with the interpreter's path unquoted."""
    for path in (str(subject.folder), sys.executable):
        if _UNQUOTED.search(path):
            yield fail(
                "path", f"'{path}' holds characters that a shell takes apart", "move the project to a plain path"
            )
            return
    if subject.platform == "local" and sys.platform != "linux":
        yield fail(
            "path", f"the local platform runs on Linux, this is {sys.platform}", "use a Linux machine or container"
        )
        return
    yield ok("path", str(subject.folder))


def room(subject: Subject) -> Iterator[Finding]:
    for what, folder in (("project", subject.folder), ("TMPDIR", Path(tempfile.gettempdir()))):
        usage = shutil.disk_usage(folder)
        shown = f"{usage.free / _GIB:.1f} GiB free in {folder} ({what})"
        fix = "free some" if what == "project" else "free some, or set TMPDIR"
        if usage.free < _LEAST_DISK:
            yield fail("disk", f"{shown}: too little to run", fix)
        elif usage.free < _SCARCE_DISK:
            yield warn("disk", f"{shown}: checkpoints, logs and packages need more", fix)
        else:
            yield ok("disk", shown)
        if not os.access(folder, os.W_OK):
            yield fail("disk", f"{folder} ({what}) cannot be written to", "have it made yours: chown")


def git(subject: Subject) -> Iterator[Finding]:
    if shutil.which("git") is None:
        yield warn("git", "not on PATH: run records will not name the commit", "install git")
    elif not (subject.folder / ".git").exists():
        yield warn("git", f"{subject.folder} is no repository: run records will not name a commit", "clone it with git")
    else:
        yield ok("git", shutil.which("git") or "")
