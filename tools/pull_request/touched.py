"""PURE: which stacks a change touches, from the paths that it changes. Needs the standard library alone."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# A file in one of these, or one of these, is part of every stack's program.
PROGRAM = (
    "__main__.py",
    "Pulumi.yaml",
    "requirements.lock",
    "infra/",
    "workload/",
    "training/",
    "capacity/",
    "policy/",
)
# Of infra/, what the other platforms never import.
LOCAL_ONLY = "infra/local_"
# Their previews need nothing that the runner does not have: `kubernetes` needs its own cluster.
PREVIEWED = ("eks", "local")


@dataclass(frozen=True, kw_only=True)
class Touched:
    """`why` names up to three of the paths. `previewed`: whether a pull request's runner can preview it."""

    stack: str
    platform: str
    why: str
    previewed: bool


def settings_file(stack: str) -> str:
    return f"Pulumi.{stack}.yaml"


def stack_of(path: str) -> str | None:
    """The stack whose settings file a path is; None for any other path."""
    found = re.fullmatch(r"Pulumi\.([^/]+)\.yaml", path)
    return found[1] if found else None


def touched(changed: Iterable[str], platforms: Mapping[str, str]) -> list[Touched]:
    """Of the stacks in `platforms` (their names with their platforms), those that a change of these paths touches."""
    paths = sorted(set(changed))
    found = []
    for stack, platform in sorted(platforms.items()):
        because = [path for path in paths if _touches(path, stack, platform)]
        if because:
            previewed = platform in PREVIEWED
            found.append(Touched(stack=stack, platform=platform, why=_shortened(because), previewed=previewed))
    return found


def removed(changed: Iterable[str], platforms: Mapping[str, str]) -> list[str]:
    """Stacks whose settings file goes away with the change: whatever they hold must be destroyed first."""
    names = {stack for path in changed if (stack := stack_of(path))}
    return sorted(names - set(platforms))


def platform_of(text: str, default: str) -> str:
    """The platform that a settings file names. Read without a YAML parser: none is installed yet where this runs."""
    for line in text.splitlines():
        if line.strip().startswith("ray-train-efa:platform:"):
            return line.split(":", 2)[2].split("#")[0].strip().strip("'\"") or default
    return default


def default_platform(text: str) -> str:
    """What Pulumi.yaml says of a stack that names no platform; read as `platform_of` reads."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.strip() == "platform:":
            for inside in lines:
                if inside.strip().startswith("default:"):
                    return inside.split(":", 1)[1].strip().strip("'\"")
    return "local"


def _touches(path: str, stack: str, platform: str) -> bool:
    if path == settings_file(stack):
        return True
    if path.startswith(LOCAL_ONLY) and platform != "local":
        return False
    return any(path == part or (part.endswith("/") and path.startswith(part)) for part in PROGRAM)


def _shortened(paths: Sequence[str], shown: int = 3) -> str:
    more = len(paths) - shown
    return ", ".join(paths[:shown]) + (f" and {more} more" if more > 0 else "")
