"""Which Pulumi CLI this project uses: the one on PATH, else the official download, else a build from Go modules."""

import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tools.setup import pins, pulumi_build, pulumi_download
from tools.setup.console import SetupError, answer, say

ROUTES = ("path", "download", "build")
# Marks our own launcher, of this clone or another, which is not a CLI.
LAUNCHER = "ray-train-efa pulumi launcher"
LANGUAGE_HOST = ("pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-pulumi-python")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cli:
    path: Path
    version: str
    route: str


def forced_route() -> str | None:
    """PULUMI_CLI_FROM, which forces one route."""
    route = os.environ.get("PULUMI_CLI_FROM", "")
    if route and route not in ROUTES:
        raise SetupError(f"PULUMI_CLI_FROM is {route!r}; it must be one of {', '.join(ROUTES)}, or not set")
    return route or None


def circumstances() -> str:
    """What the choice depends on, cheap to read: as long as it and the chosen file stay, the choice stays."""
    candidate = _on_path()
    seen = ""
    if candidate:
        facts = candidate.stat()
        seen = f"{candidate} {facts.st_size} {facts.st_mtime_ns}"
    return "|".join([forced_route() or "any", pins.pulumi_version(), seen, pulumi_build.entry_name()])


def choose() -> Cli:
    """The CLI to use, fetched or built when needed; says which and why."""
    route, reason = forced_route(), ""
    if route in (None, "path"):
        cli, reason = _take_from_path()
        if cli:
            return cli
        if route == "path":
            raise SetupError(f"PULUMI_CLI_FROM=path, but {reason}")
    if cli := _take_cached(route, reason):
        return cli
    if route in (None, "download"):
        try:
            return _chosen(pulumi_download.fetch(), "download", reason or "PULUMI_CLI_FROM=download")
        except SetupError as error:
            if route == "download":
                raise SetupError(f"PULUMI_CLI_FROM=download, but {error}") from None
            say("pulumi", f"{reason}; no official download ({error}): building it from its Go modules")
            reason = "no CLI on PATH and no download"
    return _chosen(pulumi_build.build(), "build", reason or "PULUMI_CLI_FROM=build")


def _candidates() -> Iterator[Path]:
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        candidate = Path(directory) / "pulumi"
        if directory and candidate.is_file() and os.access(candidate, os.X_OK):
            with candidate.open("rb") as file:
                if LAUNCHER.encode() not in file.read(200):
                    yield candidate


def _on_path() -> Path | None:
    return next(_candidates(), None)


def _take_from_path() -> tuple[Cli | None, str]:
    """The CLI on PATH, or None and what is wrong with it."""
    path = _on_path()
    if not path:
        return None, "no Pulumi CLI on PATH"
    version = pins.parse_version(answer([path, "version"]) or "")
    if not version:
        return None, f"{path} does not answer `pulumi version`"
    if version < pins.PULUMI_MINIMUM:
        needed = pins.show(pins.PULUMI_MINIMUM)
        return None, f"{path} is version {pins.show(version)}, older than the {needed} this program needs"
    beside = path.resolve().parent
    missing = [name for name in LANGUAGE_HOST if not (beside / name).exists() and not shutil.which(name)]
    if missing:
        return None, f"{path} has no {missing[0]} beside it or on PATH, which Python programs need"
    return _chosen(path, "path", "it is new enough and has its Python language host"), ""


def _take_cached(route: str | None, reason: str) -> Cli | None:
    if route in (None, "download") and (path := pulumi_download.cached()):
        return _chosen(path, "download", f"downloaded earlier{reason and f' ({reason})'}")
    if route in (None, "build") and (path := pulumi_build.cached()):
        return _chosen(path, "build", f"built earlier{reason and f' ({reason})'}")
    return None


def _chosen(path: Path, route: str, reason: str) -> Cli:
    version = answer([path, "version"])
    if not version:
        raise SetupError(f"{path} does not answer `pulumi version`: delete {path.parent.parent} and run again")
    source = {"path": "on PATH", "download": "official download", "build": "built from its Go modules"}[route]
    say("pulumi", f"{version.removeprefix('v')}, {source} ({path}): {reason}")
    return Cli(path=path, version=version.removeprefix("v"), route=route)
