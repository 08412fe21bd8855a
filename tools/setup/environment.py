"""The locked Python environment in .venv, and the stamp that says what it was made from."""

import hashlib
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from tools.setup import pins, uv
from tools.setup.console import SetupError, elapsed, run_visibly, say

STAMP = pins.VENV / ".ray-train-efa.json"


def read_stamp() -> dict[str, Any]:
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(**changes: Any) -> None:
    partial = STAMP.with_suffix(".partial")
    partial.write_text(json.dumps({**read_stamp(), **changes}, indent=1) + "\n")
    partial.replace(STAMP)


def wanted() -> dict[str, str]:
    """What the environment is a function of. The project's path counts: the scripts of an environment name it."""
    return {
        "lock": hashlib.sha256(pins.LOCK.read_bytes()).hexdigest(),
        "python": str(Path(sys.executable).resolve()),
        "pythonVersion": f"{sys.version_info.major}.{sys.version_info.minor}",
        "project": str(pins.PROJECT),
    }


def why_stale() -> str | None:
    """Why packages must be installed, or None if the environment is as the lock wants it."""
    stamp, want = read_stamp(), wanted()
    if not (pins.VENV / "bin" / "python").exists():
        return "there is no environment yet"
    if not stamp.get("lock"):
        return "it was not made, or not finished, by set-up"
    if stamp.get("project") != want["project"]:
        return "the project was moved"
    if stamp.get("python") != want["python"] or stamp.get("pythonVersion") != want["pythonVersion"]:
        return f"Python changed from {stamp.get('python')}"
    return "requirements.lock changed" if stamp.get("lock") != want["lock"] else None


def install(reason: str) -> None:
    """Makes .venv what requirements.lock says, keeping an environment of the same Python and place."""
    began = time.monotonic()
    installer = uv.find()
    if not _fits():
        shutil.rmtree(pins.VENV, ignore_errors=True)
        run_visibly("python", [installer, "venv", "--quiet", "--python", sys.executable, pins.VENV])
    STAMP.unlink(missing_ok=True)
    count = sum("==" in line for line in pins.LOCK.read_text().splitlines())
    say(
        "packages",
        f"installing {count} locked packages into .venv ({reason}); the first time downloads about 3 GB on Linux",
    )
    sync: list[str | Path] = [installer, "pip", "sync", "--quiet", "--require-hashes", "--compile-bytecode"]
    try:
        run_visibly("packages", [*sync, "--python", pins.VENV / "bin" / "python", pins.LOCK])
    except SetupError as error:
        raise SetupError(f"the packages of requirements.lock could not be installed. {error}") from None
    write_stamp(**wanted())
    say("packages", f"{count} installed in {elapsed(began)}")


def _fits() -> bool:
    """Whether .venv can be kept: same place, same X.Y of the same Python."""
    stamp, want = read_stamp(), wanted()
    if (
        stamp.get("project", want["project"]) != want["project"]
        or stamp.get("python", want["python"]) != want["python"]
    ):
        return False
    try:
        settings = (pins.VENV / "pyvenv.cfg").read_text()
    except OSError:
        return False
    lines = dict(line.split(" = ", 1) for line in settings.splitlines() if " = " in line)
    recorded = lines.get("version_info") or lines.get("version") or ""
    return recorded.startswith(f"{want['pythonVersion']}.") and Path(pins.VENV / "bin" / "python").exists()
