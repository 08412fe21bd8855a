"""The folder that travels to the cluster with a job."""

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from workload.job_spec import training_files

SECRETS_FILE = ".job-secrets.json"

_PREFIX = "ray-train-efa-staged-"
_ABANDONED_S = 3600


@contextlib.contextmanager
def staged(training: Path, secret_env: Mapping[str, str]) -> Iterator[Path]:
    """A folder filled by `stage` for as long as the context lasts; what a killed process left earlier goes as well."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if left.stat().st_uid == os.getuid() and time.time() - left.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        stage(training, Path(folder), secret_env)
        yield Path(folder)


def stage(training: Path, folder: Path, secret_env: Mapping[str, str]) -> None:
    """Fills `folder` with the package `training/`, and the job's secrets in a file that only its owner reads.

    Secrets do not go through runtime_env: Ray logs that, and puts it on workers' command lines.
    """
    for source in training_files(training):
        target = folder / "training" / source.relative_to(training)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    if secret_env:
        descriptor = os.open(folder / SECRETS_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(dict(secret_env), file)
