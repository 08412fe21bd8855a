"""The stacks of an environment, one a region: ENV-<region>, by their files; and which of them are up."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from capacity.pulumi_cli import PulumiCli
from efactl.stack import FOLDER, Stack
from workload.errors import BadInputError, ReportedError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d+")


def checked(env: str) -> str:
    """Raises BadInputError for what is no name of an environment."""
    if not _NAME.fullmatch(env):
        raise BadInputError(f"'{env}' is no name of an environment: letters, digits, '-', '_' and '.'")
    return env


def region_stacks(env: str) -> dict[str, Stack]:
    """By region. ENV-<anything else> is an environment of its own, or a stack of nobody's."""
    found = {}
    for file in sorted(FOLDER.glob(f"Pulumi.{checked(env)}-*.yaml")):
        name = file.name.removeprefix("Pulumi.").removesuffix(".yaml")
        region = name.removeprefix(f"{env}-")
        # By its name first: a file that is none of ours may be no YAML, or anything.
        if _REGION.fullmatch(region) and (stack := Stack(name)).foreign_config("aws:region") == region:
            found[region] = stack
    return found


def made_in_aws(resources: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of a state that are there."""
    return [one for one in resources if one["type"].startswith("aws:") and one.get("id")]


def up_elsewhere(env: str) -> list[str]:
    """The stacks ENV-<region> whose states hold something in AWS. Raises ReportedError where one cannot be read."""
    return [name for name in _names(env) if _made(name)]


def _names(env: str) -> list[str]:
    return [stack.name for stack in region_stacks(env).values()] if _NAME.fullmatch(env) else []


def _made(name: str) -> bool:
    return bool(made_in_aws(PulumiCli(FOLDER).resources(name) or []))


def up_as(env: str, names: Sequence[str]) -> str:
    """For whoever asked about ENV, of which nothing is there."""
    return f"environment {env} is up as {', '.join(names)}: name {'it' if len(names) == 1 else 'one of them'} with -s"


def hint(name: str, otherwise: str = "") -> str:
    """What to do about a stack in which nothing was found: `up_as` where its environment is up, else `otherwise`."""
    try:
        names = up_elsewhere(name)
    except ReportedError:
        return otherwise
    return up_as(name, names) if names else otherwise


def check_alone(name: str) -> None:
    """Raises BadInputError where nothing of a stack is there, and its environment is up in a region all the same."""
    # Of a stack that is up no other is asked.
    if _names(name) and not _made(name) and (names := up_elsewhere(name)):
        raise BadInputError(
            f"{up_as(name, names)}. Nothing of stack {name} itself is there: an up of it makes a second cluster, which "
            f"bills beside that one; `efactl up -s {name} --beside` does so"
        )
