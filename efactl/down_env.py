"""`efactl down --env ENV`: every stack of an environment, one region each."""

import json
import sys
from dataclasses import asdict
from typing import Any

from capacity.left import lines
from efactl import down, teardown
from efactl.exit_codes import ExitCode
from efactl.region_stacks import region_stacks
from efactl.stack import FOLDER, Stack
from workload.errors import BadInputError, ReportedError

# What the Pulumi CLI says of a stack that its backend does not have.
_NEVER_MADE = "no stack named"


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
            facts[name], code = _down(Stack(name), aside=as_json)
        except ReportedError as error:
            print(f"stack {name}: {error}", file=sys.stderr, flush=True)
            facts[name], code = {"destroyed": False, "problem": str(error)}, ExitCode.FAILED
        codes.append(code)
    if as_json:
        print(json.dumps({"stacks": facts}))
    return max(codes)


def _down(stack: Stack, *, aside: bool) -> tuple[dict[str, Any], ExitCode]:
    try:
        return down.destroyed(stack, aside=aside)
    except ReportedError as error:
        if _NEVER_MADE not in str(error):
            raise
    # Its state may be in another backend, or lost: the account is asked all the same.
    made = teardown.made(stack, []) if stack.config("platform") == "eks" else None
    left = teardown.look(made, lambda line: print(line, file=sys.stderr, flush=True)) if made else []
    for line in [f"there is no stack {stack.name} in this backend: nothing was destroyed", *lines(left)]:
        print(line, file=sys.stderr if aside else sys.stdout)
    code = ExitCode.FAILED if any(one.matters for one in left) else ExitCode.OK
    return {"destroyed": False, "left": [asdict(one) for one in left]}, code
