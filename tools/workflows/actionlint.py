"""actionlint, built from its Go module into the cache, where clones share it."""

import hashlib
import os
import platform
import subprocess
from pathlib import Path

from tools.setup import cache, go, pins
from tools.setup.console import SetupError, answer, run_visibly, say

RECIPE = pins.PROJECT / "tools" / "workflows"
MODULE = "github.com/rhysd/actionlint"
BINARY = "actionlint"
# Change it when the command below changes.
REVISION = 1


def version() -> str:
    return pins.module_version(RECIPE / "go.mod", MODULE)


def built() -> Path:
    """The program; builds it where this machine has none, half a minute with an empty Go cache. Raises SetupError."""
    recipe = hashlib.sha256(f"{platform.system()} {platform.machine()} {REVISION}".encode())
    for file in ("go.mod", "go.sum"):
        recipe.update((RECIPE / file).read_bytes())
    name = f"actionlint-v{version()}-{recipe.hexdigest()[:12]}"
    return cache.provide(name, "lint", BINARY, _make) / BINARY


def found(files: list[Path]) -> str:
    """What it has against these workflow files; empty where it has nothing."""
    # What is on PATH must not decide: not every machine has these two.
    command: list[str | Path] = [built(), "-shellcheck=", "-pyflakes=", *files]
    done = subprocess.run(command, cwd=pins.PROJECT, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SetupError(f"actionlint failed: {done.stderr.strip()[-800:]}")
    return done.stdout


def _make(target: Path) -> None:
    compiler = go.find(pins.module_version(RECIPE / "go.mod", "go"))
    say("lint", f"building actionlint v{version()} from its Go module")
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    options = ["-buildvcs=false", "-ldflags", "-s -w", "-o", str(target / BINARY)]
    run_visibly(
        "lint",
        [compiler, "build", *options, f"{MODULE}/cmd/actionlint"],
        cwd=RECIPE,
        env={**environment, "CGO_ENABLED": "0"},
    )
    if not answer([target / BINARY, "-version"]):
        raise SetupError("the built actionlint does not answer -version")
