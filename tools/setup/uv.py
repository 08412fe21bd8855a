"""uv, which installs the packages: the one on PATH, else a pinned private copy."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from tools.setup import cache, pins
from tools.setup.console import SetupError, answer, run_visibly, say


def find() -> Path:
    """The uv to use, installed into the cache if there is none; says which and why."""
    on_path = shutil.which("uv")
    version = pins.parse_version(answer([on_path, "--version"]) or "") if on_path else None
    if on_path and version and version >= pins.UV_MINIMUM:
        say("uv", f"{pins.show(version)}, on PATH ({on_path})")
        return Path(on_path)
    if not on_path:
        reason = "none on PATH"
    elif version:
        reason = f"{on_path} is {pins.show(version)}, older than {pins.show(pins.UV_MINIMUM)}"
    else:
        reason = f"{on_path} does not run"
    pinned = pins.locked_version(pins.UV_LOCK, "uv")
    if not (cache.root() / f"uv-{pinned}" / "bin" / "uv").exists():
        say("uv", f"{reason}: installing {pinned} for this project alone with pip")
    entry = cache.provide(f"uv-{pinned}", "uv", "bin/uv", _install)
    say("uv", f"{pinned}, private copy ({entry / 'bin' / 'uv'}): {reason}")
    return entry / "bin" / "uv"


def _install(target: Path) -> None:
    pip = [sys.executable, "-m", "pip"]
    if importlib.util.find_spec("pip") is None:
        # A Python without pip can often still make an environment that has one; Debian's needs python3-venv for it.
        environment = target / "pip"
        made = subprocess.run([sys.executable, "-m", "venv", environment], capture_output=True, text=True)
        if made.returncode != 0:
            raise SetupError(
                f"{sys.executable} has neither pip nor ensurepip, so uv cannot be installed: install uv, or pip for "
                "this Python (Debian and Ubuntu: apt install python3-venv), and run again"
            )
        pip = [str(environment / "bin" / "python"), "-m", "pip"]
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    run_visibly("uv", [*pip, "install", *options, "--target", target, "-r", pins.UV_LOCK])
