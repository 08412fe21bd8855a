"""A job's extra packages, laid over the running environment once per node.

Ray's runtime_env pip would clone the whole virtual environment, gigabytes of it, on every node.
"""

import fcntl
import hashlib
import importlib
import importlib.metadata
import os
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from training.errors import TrainingError

READY = "ready"
SHOWN_LINES = 5


def activate(requirements: Sequence[str], directory: Path) -> Path:
    """Build the overlay under `directory` unless a process of this node has, and put it before the environment.

    Raises TrainingError with the last lines of pip where a requirement cannot be installed.
    """
    overlay = _overlay(requirements, directory)
    directory.mkdir(parents=True, exist_ok=True)
    with overlay.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (overlay / READY).exists():
            shutil.rmtree(overlay, ignore_errors=True)
            _build(overlay, requirements)
            (overlay / READY).touch()
    _put_first(_site_packages(overlay))
    return overlay


def installed(requirements: Sequence[str], directory: Path) -> dict[str, str]:
    """Name and version of all that the overlay holds: what was asked for and what that brought along."""
    if not requirements:
        return {}
    overlay = _site_packages(_overlay(requirements, directory))
    return {found.name: found.version for found in importlib.metadata.distributions(path=[str(overlay)])}


def _overlay(requirements: Sequence[str], directory: Path) -> Path:
    digest = hashlib.sha256("\n".join([sys.executable, *requirements]).encode())
    for path in (Path(requirement) for requirement in requirements):
        if path.is_file():
            digest.update(path.read_bytes())
    return directory / digest.hexdigest()[:16]


def _build(overlay: Path, requirements: Sequence[str]) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(overlay)], check=True)
    # pip counts what the running environment has as installed, and leaves it alone where a requirement replaces it.
    base = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (_site_packages(overlay) / "environment.pth").write_text("\n".join(base) + "\n")
    configuration = Path(sys.prefix) / "pip.conf"
    if configuration.is_file():
        shutil.copy(configuration, overlay / "pip.conf")
    python = overlay / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--no-input"]
    finished = subprocess.run([*pip, "install", *requirements], capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        lines = [line for line in (finished.stdout + finished.stderr).splitlines() if line.strip()]
        raise TrainingError(f"--pip {' '.join(requirements)}: pip failed: {' | '.join(lines[-SHOWN_LINES:])}")


def _site_packages(overlay: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(overlay), "platbase": str(overlay)}))


def _put_first(packages: Path) -> None:
    """Process the overlay's .pth files too, then move it before the environment it lies over."""
    known = list(sys.path)
    site.addsitedir(str(packages))
    added = [path for path in sys.path if path not in known]
    first = next(index for index, path in enumerate(known) if path.endswith(("site-packages", "dist-packages")))
    sys.path[:] = known[:first] + added + known[first:]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*added, os.environ.get("PYTHONPATH", "")]))
    importlib.invalidate_caches()
