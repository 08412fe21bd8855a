"""`efactl up --env` on the real engine: the stand-in account as AWS, and no Kubernetes behind its clusters."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.support.project import ROOT
from tests.support.standin_project import StandinProject
from tools.standin import endpoint, tokens
from tools.standin.aws_cli import VARIABLE

# Everything of AWS is made; what is inside of the cluster is left out.
_NO_KUBERNETES = """

class KubernetesRay(pulumi.ComponentResource):  # noqa: F811
    def __init__(self, name: str, args: KubernetesRayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:KubernetesRay", name, None, opts)
        self.head, self.pods = None, ()
        self.register_outputs({})
"""
_MAIN = """
import sys
import capacity.launch_watch, efactl.engine_run
capacity.launch_watch.INTERVAL_S = {interval}
from efactl.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


class BringUpProject(StandinProject):
    """Regions us-west-2 and us-east-2. The watch looks every ten modelled seconds."""

    def __init__(self, folder: Path, *, scale: float = 0, **settings: Any) -> None:
        self.scale = scale
        super().__init__(folder, scenario={"scale": scale}, **settings)
        if not (folder / "capacity").exists():
            shutil.copytree(ROOT / "capacity", folder / "capacity", ignore=shutil.ignore_patterns("__pycache__"))
        with (folder / "infra" / "kubernetes_ray.py").open("a") as file:
            file.write(_NO_KUBERNETES)

    def scenario(self, **content: Any) -> None:
        self.set_scenario(scale=self.scale, **content)

    def command(self, *arguments: str) -> list[str]:
        interval = 10 * self.scale or 0.2
        return [sys.executable, "-c", _MAIN.format(interval=interval), *arguments]

    def up_env(self, *options: str) -> "subprocess.CompletedProcess[str]":
        """`efactl up --env dev` over both regions."""
        return subprocess.run(
            self.command("up", "--env", "dev", "--regions", "us-west-2,us-east-2", *(options or ("-y",))),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
        )

    def down_env(self) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command("down", "--env", "dev"),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
        )

    def start_up_env(self) -> "subprocess.Popen[str]":
        """In a process group of its own, its output in `up.out`."""
        return subprocess.Popen(
            self.command("up", "--env", "dev", "--regions", "us-west-2,us-east-2", "-y"),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=(self.folder / "up.out").open("w"),
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def made(self, kind: str, region: str = "") -> list[str]:
        """URNs of what the account was asked to make and has made, of a type by its last word."""
        return [
            call["urn"]
            for call in self.calls()
            if call["operation"] == "create"
            and not call["error"]
            and tokens.kind_of(call["type"]) == kind
            and f"dev-{region}" in call["urn"]
        ]

    def there(self) -> dict[str, list[str]]:
        """What the account has, by region: the last words of the types, each with its zone where it has one."""
        found: dict[str, list[str]] = {}
        for entry in self.remaining():
            zone = entry.inputs.get("availabilityZone", "")
            found.setdefault(entry.region, []).append(f"{tokens.kind_of(entry.token)} {zone}".strip())
        return found

    def settings_of(self, stack: str) -> dict[str, Any]:
        done = subprocess.run(
            ["pulumi", "config", "--json", "--show-secrets", "-s", stack, "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return {key.partition(":")[2]: one.get("value") for key, one in json.loads(done.stdout).items()}

    def engines(self) -> list[psutil.Process]:
        """Every process of this project's account: engines, language hosts, plugins."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(VARIABLE) == str(self.account_folder) and process.pid != os.getpid():
                    found.append(process)
        return found

    def kill_everything(self) -> None:
        """As a power cut does it: nobody gets to write anything down."""
        for process in self.engines():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        gone_by = time.monotonic() + 30
        while self.engines():
            assert time.monotonic() < gone_by, "killed processes are still there"
            time.sleep(0.05)


@contextlib.contextmanager
def bring_up_project(folder: Path, *, scale: float = 0, **settings: Any) -> Iterator[BringUpProject]:
    project = BringUpProject(folder, scale=scale, **settings)
    with endpoint.serving(project.account_folder) as environment:
        project.environment.update(environment)
        try:
            yield project
        finally:
            project.kill_everything()
