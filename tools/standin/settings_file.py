"""The settings file that a stand-in's stack runs with: the stack's own, and what was changed in it."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.setup import pins
from tools.standin.place import Place
from workload.errors import BadInputError, ReportedError

_HEAD = "# Written by `python -m tools.standin` from Pulumi.{stack}.yaml; changed by the next run of it.\n"


def read(stack: str, project: Path = pins.PROJECT) -> dict[str, Any]:
    """The `config` of a stack's settings file. Raises BadInputError where there is none."""
    file = project / f"Pulumi.{stack}.yaml"
    try:
        content = yaml.safe_load(file.read_text()) or {}
    except FileNotFoundError:
        raise BadInputError(f"there is no stack {stack}: {file.name} is missing") from None
    return dict(content.get("config") or {})


def write(place: Place, config: Mapping[str, Any]) -> None:
    """Keeps the salt with which the stack's state is encrypted (under an empty passphrase)."""
    content: dict[str, Any] = {"config": dict(config)}
    init = _init_folder(place) / f"Pulumi.{place.stack}.yaml"
    content |= yaml.safe_load(init.read_text()) or {} if init.exists() else {}
    place.settings.write_text(_HEAD.format(stack=place.stack) + yaml.safe_dump(content, sort_keys=False))


def create_stack(place: Place, environment: Mapping[str, str]) -> None:
    """Makes the stack in the stand-in's backend, from a folder of its own: `stack init` writes a settings file."""
    if place.state.exists():
        return
    folder = _init_folder(place)
    folder.mkdir(exist_ok=True)
    (folder / "Pulumi.yaml").write_text("name: ray-train-efa\nruntime: python\n")
    command = ["pulumi", "stack", "init", place.stack, "--no-select", "--non-interactive"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise ReportedError(f"the stack could not be made: {done.stderr.strip() or done.stdout.strip()}")


def _init_folder(place: Place) -> Path:
    return place.folder / "init"
