"""A copy of the product in a folder of its own, driven through the real Pulumi CLI as a user drives it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from capacity import file_backend

ROOT = Path(__file__).parents[2]
QUICK = Path(__file__).parent / "quick_training"
COPIED = (
    "__main__.py",
    "requirements.lock",
    "Pulumi.yaml",
    "Pulumi.local.yaml",
    "Pulumi.dev.yaml",
    "capacity",
    "infra",
    "workload",
    "efactl",
    "report",
    "training",
)


class Project:
    """One project folder with one stack. `quick` replaces training/ by the torch-free job."""

    def __init__(
        self,
        folder: Path,
        *,
        stack: str = "local",
        quick: bool = True,
        variables: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.folder = folder
        self.stack = stack
        folder.mkdir(parents=True, exist_ok=True)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(source, folder / name)
        if quick:
            # The program reads the job's own rules for its arguments, so the rest of training/ stays beside it.
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(QUICK, folder / "training", ignore=ignored, dirs_exist_ok=True)
        if stack != "local":
            (folder / "Pulumi.local.yaml").rename(folder / f"Pulumi.{stack}.yaml")
        (folder / ".venv").symlink_to(Path(sys.prefix))
        (folder / ".state").mkdir()
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "RAY_"))},
            "PATH": f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PULUMI_BACKEND_URL": file_backend.url_of(folder / ".state"),
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PYTHONDONTWRITEBYTECODE": "1",
            # As the launcher has it for local stacks, whose test must not wait for a download of what they do not use.
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            **(variables or {}),
        }
        self.must("stack", "init", stack)
        self.set(**{"trainSteps": 4, **settings})

    def set(self, **settings: Any) -> None:
        """Writes settings into the stack's file; None takes one out."""
        path = self.folder / f"Pulumi.{self.stack}.yaml"
        content = yaml.safe_load(path.read_text())
        for key, value in settings.items():
            content["config"][f"ray-train-efa:{key}"] = value
            if value is None:
                del content["config"][f"ray-train-efa:{key}"]
        path.write_text(yaml.safe_dump(content, sort_keys=False))

    def set_secret(self, path: str, value: str) -> None:
        self.must("config", "set", "--secret", "--path", path, value)

    def pulumi(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Runs `pulumi COMMAND`, standard error joined to standard output."""
        return subprocess.run(
            [
                "pulumi",
                *command,
                "--non-interactive",
                *([] if command[0] == "stack" and command[1] == "init" else ["-s", self.stack]),
            ],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )

    def must(self, *command: str) -> str:
        done = self.pulumi(*command)
        assert done.returncode == 0, f"pulumi {' '.join(command)}:\n{done.stdout}"
        return done.stdout

    def up(self) -> "subprocess.CompletedProcess[str]":
        return self.pulumi("up", "--yes", "--skip-preview")

    def start_up(self, *, efactl: bool = False) -> "subprocess.Popen[str]":
        """Starts an `up` in a process group of its own, as a terminal would, its output in `up.out`."""
        plain = ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "-s", self.stack]
        return subprocess.Popen(
            [sys.executable, "-m", "efactl", "up", "-s", self.stack] if efactl else plain,
            cwd=self.folder,
            env=self.environment,
            stdout=(self.folder / "up.out").open("w"),
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def said(self) -> str:
        return (self.folder / "up.out").read_text()

    def efactl(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "efactl", command[0], "-s", self.stack, *command[1:]],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def changes(self) -> dict[str, str]:
        """What a preview would do, by resource name; 'same' left out."""
        steps = json.loads(self.must("preview", "--json"))["steps"]
        return {step["urn"].rsplit("::", 1)[-1]: step["op"] for step in steps if step["op"] not in ("same", "read")}

    def state(self) -> list[dict[str, Any]]:
        resources: list[dict[str, Any]] = json.loads(self.must("stack", "export"))["deployment"].get("resources") or []
        return resources

    def outputs(self) -> dict[str, Any]:
        outputs: dict[str, Any] = json.loads(self.must("stack", "output", "--json"))
        return outputs

    def runs(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "runs").glob("*")) if (self.folder / "runs").exists() else []

    def clean(self) -> None:
        """Ends whatever the stack still runs, with or without a working `destroy`."""
        for lock in (self.folder / ".state").rglob("locks/**/*.json"):
            lock.unlink()
        self.pulumi("destroy", "--yes", "--skip-preview")
        from infra import local_nodes

        local_nodes.stop(local_nodes.cluster_directory(self.folder, self.stack), say=lambda _line: None)


def wait_for(condition: Any, *, seconds: float, what: str) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"{what}: not within {seconds} s"
        time.sleep(0.2)


def end_group(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def end_all(processes: Iterable[psutil.Process]) -> None:
    """Ends what is left of them: a Kubernetes provider, for one, does not notice that its engine was killed."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
