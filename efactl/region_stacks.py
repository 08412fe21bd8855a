"""The stacks of an environment, one a region: ENV-<region>, by their files."""

import re

from efactl.stack import FOLDER, Stack
from workload.errors import BadInputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def checked(env: str) -> str:
    """Raises BadInputError for what is no name of an environment."""
    if not _NAME.fullmatch(env):
        raise BadInputError(f"'{env}' is no name of an environment: letters, digits, '-', '_' and '.'")
    return env


def region_stacks(env: str) -> dict[str, Stack]:
    """By region. ENV-<anything else> is an environment of its own, or a stack of nobody's."""
    found = {}
    for file in sorted(FOLDER.glob(f"Pulumi.{checked(env)}-*.yaml")):
        stack = Stack(file.name.removeprefix("Pulumi.").removesuffix(".yaml"))
        region = str(stack.foreign_config("aws:region") or "")
        if stack.name == f"{env}-{region}":
            found[region] = stack
    return found
