"""Before a stack is brought up or down: what a killed `pulumi` left open is brought to an end, so that nothing of it
is forgotten or made twice."""

import json
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from capacity import adoption, pending
from capacity.aws import AS_ENVIRONMENT, Access
from capacity.held import held
from capacity.pulumi_cli import PulumiCli

Say = Callable[[str], None]


def settle(
    cli: PulumiCli, stack: str, say: Say, *, region: str, name: str, access: Access = AS_ENVIRONMENT
) -> list[Mapping[str, Any]]:
    """The resources in the stack's state afterwards. `name` is the value of the tag that everything of it has.

    What was begun and is there in AWS comes into the state; what has no name to be found by is ended, to be made anew.
    A node group whose creation was cancelled is asked how it is. Raises ReportedError where Pulumi or AWS refuses.
    """
    exported = json.loads(cli.run("stack", "export", "--stack", stack))
    deployment = exported.get("deployment") or {}
    made = pending.creating(deployment)
    if made:
        say(f"stack {stack} was interrupted while it made {', '.join(_named(one) for one in made)}")
        adoption.wait_for_cluster(made, say, region=region, access=access)
        there = adoption.tagged(made, region=region, name=name, access=access)
        found = pending.recovery(made, deployment.get("resources") or [], there)
        for token, inputs in found.undone:
            adoption.undo(token, inputs, region=region, access=access)
        for urn in found.unclear:
            say(f"which of several in AWS is {urn} cannot be told: `efactl down` lists what is left by its tag")
        _put(cli, stack, pending.repaired(exported, found))
        for one in found.adopted:
            say(f"  taken over, if it is there: {one.id}")
        _refresh(cli, stack, [one.urn for one in found.adopted])
    resources = cli.resources(stack) or []
    group = held(stack, resources, region=region, zone="")
    if group.group in ("creating", "failed"):
        _refresh(cli, stack, [group.urn])
        resources = cli.resources(stack) or []
    return resources


def _put(cli: PulumiCli, stack: str, exported: Mapping[str, Any]) -> None:
    """Secrets are in it as the state has them, encrypted; the file is this user's alone."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(exported, file)
        file.flush()
        cli.run("stack", "import", "--stack", stack, "--file", file.name)


def _refresh(cli: PulumiCli, stack: str, urns: list[str]) -> None:
    """What is not there goes from the state."""
    if urns:
        targets = [part for urn in urns for part in ("--target", urn)]
        cli.run("refresh", "--stack", stack, "--yes", "--skip-preview", *targets)


def _named(resource: Mapping[str, Any]) -> str:
    return f"{resource['type'].rpartition(':')[2]} {str(resource['urn']).rpartition('::')[2]}"
