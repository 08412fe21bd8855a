"""Pulumi's Kubernetes provider plugin, which stacks beyond the local platform need.

The one installed already, else Pulumi's download, else a build from the provider's published Go module. That module is
not published with every release: what is built may be older than the SDK, so it is put beside this project's `pulumi`
alone (which warns that it takes it from PATH) and not among the user's plugins.
"""

import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from pathlib import Path

from tools.setup import cache, go, pins
from tools.setup.console import SetupError, answer, elapsed, run_visibly, say

RECIPE = pins.PULUMI_RECIPE / "kubernetes"
MODULE = "github.com/pulumi/pulumi-kubernetes/provider/v4"
BINARY = "pulumi-resource-kubernetes"
# Change it when the commands below change.
REVISION = 1


def version() -> str:
    """The SDK's version: the engine asks for a plugin of exactly that."""
    return pins.locked_version(pins.LOCK, "pulumi-kubernetes")


def needed_by(stack: str, project: Path = pins.PROJECT) -> bool:
    """Whether a stack's file names a platform other than local. Read without a YAML parser: none is installed yet."""
    file = project / f"Pulumi.{stack}.yaml"
    if not file.exists():
        return False
    values = [line.split(":", 2)[2] for line in file.read_text().splitlines() if "ray-train-efa:platform:" in line]
    return bool(values) and values[0].split("#")[0].strip().strip("'\"") != "local"


def installed() -> Path | None:
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    plugin = home / "plugins" / f"resource-kubernetes-v{version()}" / BINARY
    return plugin if os.access(plugin, os.X_OK) else None


def install(cli: Path) -> None:
    """Makes the plugin available to `cli`; says which way and why."""
    link = pins.VENV / "bin" / BINARY
    if plugin := installed():
        link.unlink(missing_ok=True)
        say("plugin", f"kubernetes {version()} is installed ({plugin})")
        return
    if link.exists():
        say("plugin", f"kubernetes, built from {MODULE}@{module_version()} ({link.resolve()})")
        return
    command: list[str | Path] = [cli, "plugin", "install", "resource", "kubernetes", f"v{version()}"]
    try:
        run_visibly("plugin", command)
    except SetupError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        say("plugin", f"no official download of kubernetes {version()} ({reason[:120]})")
        plugin = built()
        link.unlink(missing_ok=True)
        link.symlink_to(plugin)
        say("plugin", f"kubernetes, built from {MODULE}@{module_version()}, for this project alone")
    else:
        say("plugin", f"kubernetes {version()} installed")


def module_version() -> str:
    return pins.module_version(RECIPE / "go.mod", MODULE)


def entry_name() -> str:
    recipe = hashlib.sha256(f"{platform.system()} {platform.machine()} {REVISION}".encode())
    for file in (RECIPE / "go.mod", RECIPE / "go.sum", RECIPE / "main.go"):
        recipe.update(file.read_bytes())
    return f"pulumi-kubernetes-v{version()}-{recipe.hexdigest()[:12]}"


def cached() -> Path | None:
    plugin = cache.root() / entry_name() / BINARY
    return plugin if plugin.exists() else None


def built() -> Path:
    """The plugin built from its Go module, in the cache."""
    if plugin := cached():
        return plugin
    compiler = go.find(pins.module_version(RECIPE / "go.mod", "go"))
    return cache.provide(entry_name(), "plugin", BINARY, lambda target: _make(compiler, target)) / BINARY


def here() -> Path | None:
    """The plugin as it is installed, or was built, on this machine."""
    return installed() or cached()


def link_into(home: Path) -> None:
    """Makes the plugin one of the Pulumi home `home`; builds it where this machine has none."""
    link = home / "plugins" / f"resource-kubernetes-v{version()}" / BINARY
    if link.exists():
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(here() or built())


def _make(compiler: Path, target: Path) -> None:
    began = time.monotonic()
    say(
        "plugin",
        "building it from its Go module; with an empty Go cache: 5 to 10 minutes on 2 cores",
    )
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
    with tempfile.TemporaryDirectory(dir=target) as folder:
        sources = Path(folder)
        for file in ("go.mod", "go.sum", "main.go"):
            shutil.copyfile(RECIPE / file, sources / file)
        run_visibly("plugin", [compiler, "mod", "download", MODULE], cwd=sources, env=environment)
        module = answer(["env", "GOWORK=off", compiler, "list", "-C", sources, "-m", "-f", "{{.Dir}}", MODULE], 120)
        if not module:
            raise SetupError(f"`go list -m {MODULE}` names no directory of the module")
        published = Path(module) / "cmd" / BINARY
        schema = json.loads((published / "schema.json").read_text())
        (sources / "schema-embed.json").write_text(json.dumps({**schema, "version": version()}))
        shutil.copyfile(published / "terraform-mapping.json", sources / "terraform-mapping-embed.json")
        stamp = f"-s -w -X {MODULE}/pkg/version.Version={version()}"
        build: list[str | Path] = [compiler, "build", "-v", "-buildvcs=false", "-ldflags", stamp]
        run_visibly("plugin", [*build, "-o", target / BINARY, "."], cwd=sources, env=environment, progress=_compiled)
    say("plugin", f"built in {elapsed(began)}")


def _compiled(output: str) -> str:
    return f"{len(output.splitlines())} packages compiled"
