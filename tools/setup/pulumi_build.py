"""The Pulumi CLI built from its Go modules, for machines that reach a Go module proxy and no download site."""

import hashlib
import os
import platform
import shutil
import time
from pathlib import Path

from tools.setup import cache, go, pins
from tools.setup.console import SetupError, answer, elapsed, run_visibly, say

CLI = pins.PULUMI_RECIPE / "cli"
# Newer hosts are a module of their own that module proxies refuse to serve; this older one drives the pinned engine.
LANGUAGE_HOST = pins.PULUMI_RECIPE / "language-python"
PULUMI = "github.com/pulumi/pulumi"
# Change it when the commands below change.
RECIPE = 1
# Scripts that releases carry beside the binary, by their place in the SDK's module.
SCRIPTS = ("python/cmd/pulumi-language-python-exec", "python/dist/pulumi-resource-pulumi-python")


def entry_name() -> str:
    """Keyed by version and recipe: whatever changes the binaries changes the name."""
    recipe = hashlib.sha256(f"{platform.system()} {platform.machine()} {RECIPE}".encode())
    for file in (CLI / "go.mod", CLI / "go.sum", LANGUAGE_HOST / "go.mod", LANGUAGE_HOST / "go.sum"):
        recipe.update(file.read_bytes())
    return f"pulumi-v{pins.pulumi_version()}-{recipe.hexdigest()[:12]}"


def cached() -> Path | None:
    cli = cache.root() / entry_name() / "bin" / "pulumi"
    return cli if cli.exists() else None


def build() -> Path:
    """Builds the CLI and the Python language host into the cache; returns the CLI's path."""
    if cli := cached():
        return cli
    compiler = go.find(pins.module_version(CLI / "go.mod", "go"))
    return (
        cache.provide(entry_name(), "pulumi", "bin/pulumi", lambda target: _make(compiler, target)) / "bin" / "pulumi"
    )


def _make(compiler: Path, target: Path) -> None:
    began = time.monotonic()
    version, binaries = pins.pulumi_version(), target / "bin"
    binaries.mkdir()
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
    options: list[str | Path] = [compiler, "build", "-v", "-buildvcs=false", "-o", binaries]

    def compiled(output: str) -> str:
        lines = output.splitlines()
        fetched = sum(line.startswith("go: downloading") for line in lines)
        return f"{fetched} modules fetched, {len(lines) - fetched} packages compiled"

    say(
        "pulumi",
        f"building the CLI v{version} from its Go modules; with an empty Go cache: 5 to 10 minutes on 2 cores",
    )
    stamp = f"-s -w -X {PULUMI}/sdk/v3/go/common/version.Version=v{version}"
    engine = [*options, "-ldflags", stamp, f"{PULUMI}/pkg/v3/cmd/pulumi"]
    run_visibly("pulumi", engine, cwd=CLI, env=environment, progress=compiled)
    host_version = pins.module_version(LANGUAGE_HOST / "go.mod", f"{PULUMI}/sdk/v3")
    say("pulumi", f"building its Python language host (from sdk/v3 v{host_version})")
    host = [*options, "-ldflags", "-s -w", f"{PULUMI}/sdk/v3/python/cmd/pulumi-language-python"]
    run_visibly("pulumi", host, cwd=LANGUAGE_HOST, env=environment, progress=compiled)
    module = answer(
        [
            "env",
            "GOWORK=off",
            "GOTOOLCHAIN=local",
            compiler,
            "list",
            "-C",
            CLI,
            "-m",
            "-f",
            "{{.Dir}}",
            f"{PULUMI}/sdk/v3",
        ],
        seconds=120,
    )
    if not module:
        raise SetupError(f"`go list -m {PULUMI}/sdk/v3` in {CLI} names no directory of the module")
    for script in SCRIPTS:
        copy = binaries / Path(script).name
        shutil.copyfile(Path(module) / script, copy)
        copy.chmod(0o755)
    if answer([binaries / "pulumi", "version"]) != f"v{version}":
        raise SetupError(f"the built CLI does not answer `pulumi version` with v{version}")
    say("pulumi", f"built in {elapsed(began)}")
