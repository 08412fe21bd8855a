"""The acceptance gate: `efactl up`, then what its run left and a report of it in a folder; exits as `efactl up` did.

The run is one of this gate's own, whatever the stack has run before. An `up` that succeeds without it fails the gate.

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
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from efactl.run_settings import applied
from tools.acceptance.record import NOTHING_PROVEN, Kept, judged, run_among, text
from tools.pull_request.clean import cleaner
from tools.setup import pins
from workload.run_folder import ERROR, LOG, RECORD
from workload.signal_handlers import handled

_PREFIX = "ray-train-efa"


def main(arguments: Sequence[str] | None = None, project: Path = pins.PROJECT) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.acceptance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-s", "--stack", required=True)
    parser.add_argument("--out", type=Path, required=True, help="the folder for the report and the run's files")
    parser.add_argument(
        "--hours", type=float, default=4, help="when the GPU nodes and their reservation end (default: 4)"
    )
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    file, now = project / f"Pulumi.{asked.stack}.yaml", datetime.now(UTC)
    own_run(file, run_id(os.environ, now))
    bound(file, now + timedelta(hours=asked.hours))
    before = files(project)
    code = up(asked.stack, project)
    kept = keep(asked.stack, project, asked.out, before, failed=code != 0)
    (asked.out / "summary.md").write_text(text(asked.stack, code, kept))
    if judged(code, kept) != code:
        print(f"the gate fails: {NOTHING_PROVEN}", file=sys.stderr)
    return judged(code, kept)


def run_id(environment: Mapping[str, str], now: datetime) -> str:
    """No other gate's: of the workflow's run and attempt, elsewhere of the time."""
    of = [environment.get(name) for name in ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT")]
    return f"acceptance {'-'.join(map(str, of)) if all(of) else now.isoformat()}"


def own_run(file: Path, run_id: str) -> None:
    """Has the `up` make a run, though nothing has changed since the stack's last one."""
    settings = {"train": True, "jobRunId": run_id}
    file.write_text(applied(file.read_text(encoding="utf-8"), settings, project=_PREFIX), encoding="utf-8")


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
    process: subprocess.Popen[bytes] | None = None
    owed: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        if process is None:
            owed.append(number)
        else:
            process.send_signal(number)

    with handled((signal.SIGINT, signal.SIGTERM), pass_on):
        process = subprocess.Popen([sys.executable, "-m", "efactl", "up", "-s", stack], cwd=project)
        for number in owed[:1]:
            process.send_signal(number)
        code = process.wait()
    return code if code >= 0 else 128 - code


def files(project: Path) -> set[Path]:
    """Those of all runs: records, errors, logs."""
    return {path for name in (RECORD, ERROR, LOG) for path in (project / "runs").glob(f"*/{name}")}


def keep(stack: str, project: Path, out: Path, before: set[Path], *, failed: bool) -> Kept | None:
    """Copies into `out` what the run of an `up` left, and a report of it; None where there was no run.

    `before` has the `files` that were there before the `up`.
    """
    made = sorted(files(project) - before, key=lambda path: (path.stat().st_mtime, path))
    name = run_among([path.parent.name for path in made], failed=failed)
    if name is None:
        return None
    folder = project / "runs" / name
    for path in files(project):
        if path.parent == folder:
            shutil.copyfile(path, out / path.name)
    report = ["report", name, "-s", stack, "-o", str((out / "report.html").resolve())]
    done = subprocess.run([sys.executable, "-m", "efactl", *report], cwd=project, env={**os.environ, "NO_COLOR": "1"})
    record, error = folder / RECORD, folder / ERROR
    return Kept(
        run=name,
        record=json.loads(record.read_text(encoding="utf-8")) if record.exists() else None,
        error=cleaner(os.environ)(error.read_text(encoding="utf-8", errors="replace")) if error.exists() else "",
        report="report.html" if done.returncode == 0 else "",
    )


if __name__ == "__main__":
    sys.exit(main())
