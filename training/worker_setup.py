"""What every process of the job does before any of its code is imported."""

import gc
import json
import os
from pathlib import Path

from training import nccl_lines, packages
from training.errors import TrainingError

PIP_VARIABLE = "RAY_TRAIN_EFA_PIP"
SECRETS_FILE = ".job-secrets.json"
HOOK = "training.worker_setup.prepare_worker"
_FAILURE = "RAY_TRAIN_EFA_SETUP_FAILURE"


def prepare_worker() -> None:
    """Ray's worker_process_setup_hook. The packages to add come through the environment, as a JSON list."""
    # Importing Ray Train, torch and transformers makes a million long-lived objects; with the default threshold a
    # sixth of that time goes into scanning them again and again.
    gc.set_threshold(100_000, 20, 100)
    load_secrets(working_directory())
    nccl_lines.prepare(session_directory() / "nccl")
    requirements = json.loads(os.environ.get(PIP_VARIABLE, "[]"))
    if requirements:
        try:
            packages.activate(requirements, node_directory())
        except Exception as error:
            # A hook that raises makes Ray start the worker again and again, with the reason in a log of the node.
            os.environ[_FAILURE] = (
                str(error) if isinstance(error, TrainingError) else f"--pip: {type(error).__name__}: {error}"
            )


def raise_if_unprepared() -> None:
    """Raises the TrainingError that prepare_worker met in this process."""
    failure = os.environ.get(_FAILURE)
    if failure is not None:
        raise TrainingError(failure)


def working_directory() -> Path:
    """The job's own, wherever the process has been moved since."""
    return Path(__file__).resolve().parents[1]


def load_secrets(directory: Path) -> list[str]:
    """Put the secret variables that travel with the job into the environment; returns their names, never values."""
    secrets = _secrets(directory)
    os.environ.update(secrets)
    return sorted(secrets)


def secret_names(directory: Path) -> frozenset[str]:
    """Of the variables that travel with the job in secret."""
    return frozenset(_secrets(directory))


def _secrets(directory: Path) -> dict[str, str]:
    file = directory / SECRETS_FILE
    secrets: dict[str, str] = json.loads(file.read_text()) if file.is_file() else {}
    return secrets


def node_directory() -> Path:
    """A directory that all Ray processes of this node share and that goes with the Ray session."""
    return session_directory() / "job_packages"


def session_directory() -> Path:
    """Ray's own, on this node."""
    import ray

    context = ray.get_runtime_context()
    return Path(context.get_temp_dir(), context.get_session_name())
