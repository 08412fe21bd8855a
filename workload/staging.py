"""The folder that travels to the cluster with a job."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from workload.job_spec import training_files

SECRETS_FILE = ".job-secrets.json"


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
