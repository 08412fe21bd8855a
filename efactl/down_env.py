"""`efactl down --env ENV`: every stack of an environment, one region each."""

import json
import sys
from typing import Any

from efactl import down
from efactl.exit_codes import ExitCode
from efactl.region_stacks import region_stacks
from efactl.stack import FOLDER, Stack
from workload.errors import BadInputError, ReportedError


def stacks_of(env: str) -> list[str]:
    """ENV itself and ENV-<region>, by their files. Raises BadInputError where there are none."""
    names = [stack.name for stack in region_stacks(env).values()]
    if (FOLDER / f"Pulumi.{env}.yaml").exists():
        names.insert(0, env)
    if not names:
        raise BadInputError(
            f"environment '{env}' has no stack: there is neither Pulumi.{env}.yaml nor Pulumi.{env}-<region>.yaml"
        )
    return names


def down_env(env: str, *, as_json: bool) -> ExitCode:
    """Goes on with the next stack where one fails; OK only where each is gone and nothing of any bills."""
    names = stacks_of(env)
    facts: dict[str, Any] = {}
    codes: list[ExitCode] = []
    for number, name in enumerate(names, start=1):
        print(f"stack {name} ({number} of {len(names)})", file=sys.stderr, flush=True)
        try:
            facts[name], code = down.destroyed(Stack(name), aside=as_json, is_base=name == env)
        except ReportedError as error:
            print(f"stack {name}: {error}", file=sys.stderr, flush=True)
            facts[name], code = {"destroyed": False, "left": None, "problem": str(error)}, ExitCode.FAILED
        codes.append(code)
    if as_json:
        print(json.dumps({"stacks": facts}))
    return max(codes)
