"""What AWS answers when it is only asked: the functions of the SDK, by token."""

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from tools.standin import calls, faults, invokes_ec2, invokes_eks, schema
from tools.standin.asking import Asking
from tools.standin.cloud import Cloud
from tools.standin.errors import AwsError
from workload.errors import BadInputError

ANSWERS: Mapping[str, Callable[[Asking], dict[str, Any]]] = {**invokes_ec2.ANSWERS, **invokes_eks.ANSWERS}


def answer(cloud: Cloud, token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Raises BadInputError for a function or an argument that is not known, AwsError where AWS refuses."""
    if token not in ANSWERS:
        raise BadInputError(f"the stand-in account does not answer {token}: add it to a table of tools/standin/invokes")
    unknown = sorted(set(arguments) - arguments_of(token))
    if unknown:
        known = ", ".join(sorted(arguments_of(token)))
        raise BadInputError(f"{token} has no argument {', '.join(unknown)}; it has {known}")
    clock, error = cloud.clock(), ""
    at = round(clock.now(), 3)
    try:
        faults.before(cloud.account, cloud.scenario, clock, token=token, operation="invoke", urn="")
        with cloud.account.open() as records:
            region = str(arguments.get("region") or cloud.configuration.region)
            asking = Asking(
                arguments=arguments, region=region, records=records, scenario=cloud.scenario, folder=cloud.folder
            )
            result = {**arguments, "region": region, **ANSWERS[token](asking)}
    except AwsError as refusal:
        error = refusal.code
        raise
    finally:
        seconds = round(clock.spent, 3)
        calls.write(cloud.folder, type=token, operation="invoke", urn="", id="", at=at, seconds=seconds, error=error)
    return {"id": result["region"], **result}


@functools.cache
def arguments_of(token: str) -> frozenset[str]:
    """The wire names of a function's arguments, from the SDK's own signature."""
    _, path, name = token.split(":")
    folder = path.partition("/")[0]
    with schema.IMPORTS:
        module = importlib.import_module("pulumi_aws" if folder == "index" else f"pulumi_aws.{folder}")
        function = getattr(module, re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower())
    parameters = [parameter for parameter in inspect.signature(function).parameters if parameter != "opts"]
    return frozenset(_wire(parameter) for parameter in parameters)


def _wire(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
