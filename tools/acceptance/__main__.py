"""The acceptance gate: `efactl up`, then the report and the record of its run in a folder; exits as `efactl up` did.

It does not tear down: the workflow does that in a job of its own, which runs whatever became of this one.

example:
  python -m tools.acceptance -s dev --hours 4 --out acceptance; efactl down -s dev
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

from efactl.run_settings import applied
from tools.acceptance.record import text
from tools.setup import pins

_PREFIX = "ray-train-efa"


def main(arguments: Sequence[str] | None = None, project: Path = pins.PROJECT) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.acceptance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-s", "--stack", required=True)
    parser.add_argument("--out", type=Path, required=True, help="the folder for report.html and record.json")
    parser.add_argument(
        "--hours", type=float, default=4, help="when the GPU nodes and their reservation end (default: 4)"
    )
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    bound(project / f"Pulumi.{asked.stack}.yaml", datetime.now(UTC) + timedelta(hours=asked.hours))
    before = records(project)
    code = up(asked.stack, project)
    record, report = kept(asked.stack, project, asked.out, before)
    (asked.out / "summary.md").write_text(text(asked.stack, code, record, report))
    return code


def bound(file: Path, end: datetime) -> None:
    """Has AWS end the GPU nodes and their reservation, should nothing else. The file is this checkout's copy.

    The nodes of a gpuExistingGroup are their owner's, and end by nothing of ours.
    """
    content = file.read_text(encoding="utf-8")
    config = yaml.safe_load(content)["config"]
    if config.get(f"{_PREFIX}:platform") != "eks" or config.get(f"{_PREFIX}:gpuExistingGroup"):
        return
    until = end.strftime("%Y-%m-%dT%H:%M:%SZ")
    settings = {"ttlUntil": until}
    if config.get(f"{_PREFIX}:capacity", "reserve") == "reserve":
        # An earlier one in the file would hold, and may have passed.
        settings["capacityUntil"] = until
    file.write_text(applied(content, settings, project=_PREFIX), encoding="utf-8")


def up(stack: str, project: Path) -> int:
    """Its exit code. An interrupt or an end from outside is passed on: the stack's job is not to lose its follower."""
    process = subprocess.Popen([sys.executable, "-m", "efactl", "up", "-s", stack], cwd=project)

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def records(project: Path) -> set[Path]:
    return set((project / "runs").glob("*/record.json"))


def kept(stack: str, project: Path, out: Path, before: set[Path]) -> tuple[dict[str, Any] | None, str]:
    """The newest record that was not there before, and its report's name, both copied into `out`; None without one."""
    # A preflight's and a comparison's have no checkpoint and are not the run.
    made = [path for path in records(project) - before if "bandwidth" not in path.parent.name]
    if not made:
        return None, ""
    newest = max(made, key=lambda path: path.stat().st_mtime)
    shutil.copyfile(newest, out / "record.json")
    report = ["report", newest.parent.name, "-s", stack, "-o", str((out / "report.html").resolve())]
    done = subprocess.run([sys.executable, "-m", "efactl", *report], cwd=project, env={**os.environ, "NO_COLOR": "1"})
    record: dict[str, Any] = json.loads(newest.read_text(encoding="utf-8"))
    return record, "report.html" if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
