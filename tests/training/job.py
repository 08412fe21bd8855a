"""Submit the training job to a real cluster as a user's tool does, and read what it printed."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray.job_submission import JobSubmissionClient

from infra.local_nodes import LocalCluster
from training.record import MARK
from training.worker_setup import SECRETS_FILE

PROJECT = Path(__file__).parents[2]
FOUR_RANKS = ["--worker_resource", "trainer", "--seq_len", "64", "--batch_size", "2", "--eval_batches", "1"]


@dataclass(frozen=True)
class Finished:
    status: str
    lines: list[str]

    @property
    def record(self) -> dict[str, Any]:
        """The record, which is one line and the last that the driver printed."""
        marked = [line for line in self.lines if line.startswith(MARK)]
        assert len(marked) == 1, "\n".join(self.lines[-30:])
        record: dict[str, Any] = json.loads(marked[0].removeprefix(MARK))
        return record

    @property
    def errors(self) -> list[str]:
        return [line.removeprefix("[error] ") for line in self.lines if line.startswith("[error] ")]

    def said(self, text: str) -> list[str]:
        return [line for line in self.lines if "[train] " in line and text in line]


def submit(
    cluster: LocalCluster,
    folder: Path,
    arguments: list[str],
    *,
    env: dict[str, str] | None = None,
    secrets: dict[str, str] | None = None,
    meanwhile: Callable[[Path], bool] = lambda runs: True,
    timeout_s: float = 240,
) -> Finished:
    """`meanwhile` is called with the storage path, again and again until it returns True."""
    working_directory = folder / "working_dir"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "training", working_directory / "training", ignore=ignored)
    if secrets:
        (working_directory / SECRETS_FILE).write_text(json.dumps(secrets))
    client = JobSubmissionClient(cluster.address, headers={"Authorization": f"Bearer {cluster.token}"})
    words = [*FOUR_RANKS, "--storage_path", str(folder / "runs"), "--run_id", folder.name, *arguments]
    job = client.submit_job(
        entrypoint=f"{sys.executable} -m training.train {' '.join(words)}",
        runtime_env={"working_dir": str(working_directory), "env_vars": {"RAY_DEDUP_LOGS": "0", **(env or {})}},
    )
    deadline, done = time.monotonic() + timeout_s, False
    while not (status := client.get_job_status(job)).is_terminal():
        if time.monotonic() > deadline:
            client.stop_job(job)
            raise AssertionError(f"the job did not end in {timeout_s} s:\n{client.get_job_logs(job)}")
        time.sleep(0.5)
        done = done or meanwhile(folder / "runs")
    return Finished(str(status.value), client.get_job_logs(job).splitlines())


def run_driver(arguments: list[str]) -> tuple[int, Finished]:
    """The driver by itself, for what it refuses before it looks for a cluster."""
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    run = subprocess.run(
        [sys.executable, "-m", "training.train", *arguments],
        cwd=PROJECT,
        env=environment | {"HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return run.returncode, Finished("FAILED" if run.returncode else "SUCCEEDED", run.stdout.splitlines())
