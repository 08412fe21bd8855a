"""The graph that the program registers for a stack of the eks platform: a preview with the stand-ins, as JSON."""

import json
import os
import subprocess
from datetime import UTC, datetime
from typing import Any

from tools.setup import pins
from tools.setup.console import SetupError
from tools.standin import engine, overrides, settings_file
from tools.standin.place import Place
from workload.errors import ReportedError


def previewed(place: Place) -> dict[str, Any]:
    """Of a stack that has nothing yet. Writes into `place` alone; raises ReportedError with what the program said."""
    config = settings_file.read(place.stack)
    overrides.check_platform(config, place.stack)
    place.make()
    engine.prepare(place)
    env = engine.environment(place, os.environ)
    settings_file.create_stack(place, env)
    settings_file.write(place, overrides.apply(config, overrides.for_any(config, now=datetime.now(UTC))))
    command = ["pulumi", "preview", "--json", "--non-interactive", "-s", place.stack]
    try:
        done = subprocess.run(
            [*command, "--config-file", str(place.settings)],
            cwd=pins.PROJECT,
            env=env,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        raise SetupError("there is no `pulumi`: run `make setup`") from None
    if done.returncode:
        raise ReportedError(f"the preview of {place.stack} failed:\n{_said(done.stdout)}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _said(output: str) -> str:
    try:
        diagnostics = json.loads(output).get("diagnostics") or []
    except ValueError:
        return output
    return "".join(one["message"] for one in diagnostics if one.get("severity") == "error")
