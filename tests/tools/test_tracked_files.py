"""What a clone carries: no registry's host, no path of the machine it was written on, a hash for every package."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.setup import pins

# In two halves, so that this file does not name them either.
REGISTRY_HOSTS = [
    "".join(halves)
    for halves in (
        ("py", "pi.org"),
        ("pythonhos", "ted.org"),
        ("registry.npm", "js.org"),
        ("proxy.go", "lang.org"),
        ("sum.go", "lang.org"),
        ("crates", ".io"),
        ("ruby", "gems.org"),
        ("repo.maven.apa", "che.org"),
        ("repo1.mav", "en.org"),
        ("deb.deb", "ian.org"),
        ("archive.ubu", "ntu.com"),
    )
]
# /home/ray is the home folder inside Ray's container images.
MACHINE_PATH = re.compile(r"(?<![\w./$}-])/(?:root|Users|home/(?!ray\b)[a-z])[\w.-]*/")
LOCKS = [pins.LOCK, pins.UV_LOCK, pins.GO_LOCK]


def tracked_texts() -> Iterator[tuple[Path, str]]:
    """Files that git tracks or would add, with their text."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=pins.PROJECT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        path = pins.PROJECT / name
        if path.is_file():
            yield path.relative_to(pins.PROJECT), path.read_text(errors="replace")


def test_no_file_names_the_host_of_a_package_registry() -> None:
    found = [(str(path), host) for path, text in tracked_texts() for host in REGISTRY_HOSTS if host in text]
    assert not found, "users install from their own mirrors: name packages and versions, not hosts"


def test_no_file_holds_a_path_of_the_machine_it_was_written_on() -> None:
    found = [
        (str(path), line.strip()[:100])
        for path, text in tracked_texts()
        for line in text.splitlines()
        if MACHINE_PATH.search(line)
    ]
    assert not found


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_requirement_of_a_lock_is_pinned_and_hashed(lock: Path) -> None:
    logical_lines = lock.read_text().replace("\\\n", " ").splitlines()
    requirements = [line for line in logical_lines if line.strip() and not line.lstrip().startswith("#")]
    assert requirements
    unsafe = [line for line in requirements if not re.match(r"[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)]
    assert not unsafe
    assert "://" not in "".join(requirements)


def test_the_lock_holds_every_direct_requirement_at_its_pin() -> None:
    project = (pins.PROJECT / "pyproject.toml").read_text()
    for name, version in re.findall(r'^  "([\w-]+)(?:\[[\w,]+\])?==([\w.]+)"', project, re.MULTILINE):
        assert pins.locked_version(pins.LOCK, name) == version, "run `make lock`"
