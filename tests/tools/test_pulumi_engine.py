"""The CLI that set-up provides, on a real program with a dynamic resource."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.setup import environment, launchers, pins

PROGRAM = """
import pulumi
from made import Made
pulumi.export("answer", Made("made", 41).answer)
"""
RESOURCE = """
import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider

class Provider(ResourceProvider):
    def create(self, props):
        return CreateResult("made", {**props, "answer": str(int(props["number"]) + 1)})

class Made(Resource):
    answer: pulumi.Output[str]

    def __init__(self, name, number):
        super().__init__(Provider(), name, {"number": number, "answer": None})
"""
# Empty passphrase, as in the project's own Pulumi.local.yaml.
SALT = next(line for line in (pins.PROJECT / "Pulumi.local.yaml").read_text().splitlines() if "encryptionsalt" in line)
STACK = f"config:\n  ray-train-efa:platform: local\n{SALT}\n"


def new_project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(
        "name: ray-train-efa\nruntime: python\nconfig:\n  platform:\n    type: string\n    default: local\n"
    )
    (folder / "Pulumi.local.yaml").write_text(STACK)
    (folder / "__main__.py").write_text(PROGRAM)
    (folder / "made.py").write_text(RESOURCE)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def pulumi(launcher: Path, project: Path, *arguments: str) -> str:
    """Runs the launcher as a user without any Pulumi settings would."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
    mine["PULUMI_HOME"] = str(project.parent / "pulumi-home")
    command = ["/bin/sh", str(launcher), *arguments]
    done = subprocess.run(command, cwd=project, env=mine, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_through(launcher: Path, project: Path) -> None:
    assert "2 to create" in pulumi(launcher, project, "preview", "-s", "local")
    assert "2 created" in pulumi(launcher, project, "up", "-y", "-s", "local")
    assert pulumi(launcher, project, "stack", "output", "answer", "--stack=local") == "42\n"
    assert "2 unchanged" in pulumi(launcher, project, "up", "-y", "-s", "local", "--skip-preview")
    assert "2 deleted" in pulumi(launcher, project, "destroy", "-y", "-s", "local")


@pytest.mark.engine
def test_plain_pulumi_works_on_a_fresh_clone_without_login_or_stack_init(tmp_path: Path) -> None:
    project = new_project(tmp_path.resolve() / "my project")
    launcher = tmp_path / "pulumi"
    cli = Path(environment.read_stamp()["cli"])
    launcher.write_text(next(iter(launchers.texts(cli, project).values())))
    run_through(launcher, project)
    assert (project / ".state" / ".pulumi" / "stacks" / "ray-train-efa" / "local.json").exists()
    assert (project / "Pulumi.local.yaml").read_text() == STACK, "creating the stack must not change a tracked file"


@pytest.mark.full
@pytest.mark.engine
@pytest.mark.timeout(1800)
def test_the_cli_built_from_its_modules_into_an_empty_cache_runs_a_program(tmp_path: Path) -> None:
    cache = tmp_path.resolve() / "cache"
    build = "from tools.setup import pulumi_build; print(pulumi_build.build())"
    # Go's own caches stay in their place: what is downloaded and compiled there is keyed by content.
    go_path = (
        subprocess.run(["go", "env", "GOCACHE"], capture_output=True, text=True).stdout.strip()
        if shutil.which("go")
        else ""
    )
    variables = {"XDG_CACHE_HOME": str(cache)} | ({"GOCACHE": go_path} if go_path else {})
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=pins.PROJECT, env={**os.environ, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cli = Path(done.stdout.splitlines()[-1])
    assert cli.is_relative_to(cache)
    project = new_project(tmp_path.resolve() / "project")
    launcher = tmp_path / "pulumi"
    launcher.write_text(next(iter(launchers.texts(cli, project).values())))
    run_through(launcher, project)
