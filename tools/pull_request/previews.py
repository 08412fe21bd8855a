"""Runs a preview of a stack with the Pulumi CLI on PATH, and reads what the engine says."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from capacity import file_backend
from tools.pull_request.events import Preview, read
from tools.pull_request.touched import settings_file
from tools.setup import pins
from tools.setup.console import SetupError
from tools.standin import engine, overrides
from tools.standin import settings_file as settings
from tools.standin.place import Place

_PACK = "policy/analyzer"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A checkout to preview: `project` is its folder, `scratch` an empty one for what a preview leaves.

    `policies`: whether the policy pack of this project is asked too.
    """

    project: Path
    scratch: Path
    policies: bool

    def has(self, stack: str) -> bool:
        return (self.project / settings_file(stack)).exists()


class NoStackError(Exception):
    """The backend has no such stack: nobody has made it yet."""


def of_state(source: Source, stack: str) -> Preview:
    """Against the stack's state in the user's backend, with the credentials of this process. Raises NoStackError."""
    return _preview(source, stack, os.environ, [])


def of_standin(source: Source, stack: str, now: datetime) -> Preview:
    """Of an eks stack that has nothing yet, with stand-ins for AWS; `now` decides the dates that are changed for it."""
    config = settings.read(stack, source.project)
    overrides.check_platform(config, stack)
    place = _made(source, stack)
    engine.prepare(place)
    env = engine.environment(place, os.environ)
    settings.create_stack(place, env)
    settings.write(place, overrides.apply(config, overrides.for_any(config, now=now)))
    return _preview(source, stack, env, ["--config-file", str(place.settings)])


def of_nothing(source: Source, stack: str) -> Preview:
    """Of a stack of the local platform as nobody has it yet: with a state of its own."""
    place = _made(source, stack)
    env = {
        **os.environ,
        "PATH": _path(source, os.environ),
        "PULUMI_BACKEND_URL": file_backend.url_of(place.backend),
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
    config = settings.read(stack, source.project)
    settings.create_stack(place, env)
    # A secret of the stack's own backend cannot be read here; a preview without it is the same.
    held = [one for one in overrides.for_any(config, now=datetime.now().astimezone()) if one.value is None]
    settings.write(place, overrides.apply(config, held))
    return _preview(source, stack, env, ["--config-file", str(place.settings)])


def failed(reason: str) -> Preview:
    """A preview that did not come as far as the program."""
    return Preview(steps=(), outputs={}, kept=frozenset(), broken=(), errors=(reason,))


def _made(source: Source, stack: str) -> Place:
    place = Place(folder=source.scratch / stack, stack=stack)
    place.make()
    return place


def _preview(source: Source, stack: str, env: Mapping[str, str], options: list[str]) -> Preview:
    source.scratch.mkdir(parents=True, exist_ok=True)
    log = source.scratch / f"{stack}.events"
    command = ["pulumi", "preview", "--non-interactive", "-s", stack, "--event-log", str(log), *options]
    if source.policies:
        command += ["--policy-pack", str(pins.PROJECT / _PACK)]
    try:
        done = subprocess.run(
            command,
            cwd=source.project,
            # The switch behind which the CLI has --event-log; Pulumi's own Automation API uses both.
            env={**env, "PATH": _path(source, env), "PULUMI_DEBUG_COMMANDS": "true"},
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        raise SetupError("there is no `pulumi`: run `make setup`") from None
    lines = log.read_text().splitlines() if log.exists() else []
    # It has settings and outputs in it; nobody needs it any more.
    log.unlink(missing_ok=True)
    if not lines:
        said = (done.stderr.strip() or done.stdout.strip())[-1500:]
        if "no stack named" in said:
            raise NoStackError(f"its backend has no stack {stack} (pulumi stack init {stack} makes it)")
        return failed(f"the preview of stack {stack} did not begin: {said}")
    return read(lines)


def _path(source: Source, env: Mapping[str, str]) -> str:
    """The project's own environment behind whatever a stand-in puts first, before everything else."""
    own, path = str(source.project / ".venv" / "bin"), env.get("PATH", os.defpath)
    standin = str(source.scratch)
    first = [part for part in path.split(os.pathsep) if part.startswith(standin)]
    return os.pathsep.join([*first, own, path])
