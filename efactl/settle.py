"""Before a stack is brought up or down: what a killed `pulumi` left open is brought to an end, so that nothing of it
is forgotten or made twice."""

import json
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from capacity import adoption, pending
from capacity.aws import AS_ENVIRONMENT, Access
from capacity.pulumi_cli import PulumiCli

Say = Callable[[str], None]


def settle(
    cli: PulumiCli, stack: str, say: Say, *, region: str, name: str, access: Access = AS_ENVIRONMENT
) -> list[Mapping[str, Any]]:
    """The resources in the stack's state afterwards. `name` is the value of the tag that everything of it has.

    What was begun and is there in AWS comes into the state; what has no name to be found by is ended, to be made anew.
    An end that was begun is finished, and control plane and node groups are asked how they are: an interrupted engine
    writes down what it meant to do. Raises ReportedError where Pulumi or AWS refuses.
    """
    exported, deployment = _exported(cli, stack)
    if made := pending.creating(deployment):
        say(f"stack {stack} was interrupted while it made {', '.join(_named(one) for one in made)}")
        adoption.wait_for_cluster(made, say, region=region, access=access)
        # The wait may have been a quarter of an hour: what is put back must be what is there now.
        exported, deployment = _exported(cli, stack)
    ending = pending.deleting(deployment)
    if made := pending.creating(deployment):
        in_aws = adoption.tagged(made, region=region, name=name, access=access)
        found = pending.recovery(made, deployment.get("resources") or [], in_aws)
        for token, inputs in found.undone:
            adoption.undo(token, inputs, region=region, access=access)
        for urn in found.unclear:
            say(f"which of several in AWS is {urn} cannot be told: `efactl down -s {stack}` lists what is left")
        _put(cli, stack, pending.repaired(exported, found))
        for one in found.adopted:
            say(f"  taken over, if it is there: {one.id}")
        _targeted(cli, "refresh", stack, [one.urn for one in found.adopted])
    resources = cli.resources(stack) or []
    changed = []
    for there in resources:
        if not _is_asked(there):
            continue
        status = adoption.status(there["type"], str(there["id"]), region=region, access=access)
        if status == "DELETING":
            ending.append(str(there["urn"]))
        elif status != (there.get("outputs") or {}).get("status"):
            changed.append(str(there["urn"]))
    if ending:
        say(f"stack {stack}: an end that was interrupted is finished first")
        _targeted(cli, "destroy", stack, list(dict.fromkeys(ending)), "--target-dependents")
    _targeted(cli, "refresh", stack, changed)
    return (cli.resources(stack) or []) if changed or ending else resources


def _exported(cli: PulumiCli, stack: str) -> tuple[dict[str, Any], dict[str, Any]]:
    exported = json.loads(cli.run("stack", "export", "--stack", stack))
    return exported, exported.get("deployment") or {}


def _is_asked(resource: Mapping[str, Any]) -> bool:
    """Whether it is a control plane or a node group made here."""
    kinds = (adoption.CLUSTER, adoption.NODE_GROUP)
    there = resource.get("id") and not resource.get("external") and not resource.get("delete")
    return resource["type"] in kinds and bool(there)


def _put(cli: PulumiCli, stack: str, exported: Mapping[str, Any]) -> None:
    """Secrets are in it as the state has them, encrypted; the file is this user's alone."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(exported, file)
        file.flush()
        cli.run("stack", "import", "--stack", stack, "--file", file.name)


def _targeted(cli: PulumiCli, command: str, stack: str, urns: list[str], *options: str) -> None:
    if urns:
        targets = [part for urn in urns for part in ("--target", urn)]
        cli.run(command, "--stack", stack, "--yes", "--skip-preview", *targets, *options)


def _named(resource: Mapping[str, Any]) -> str:
    return f"{resource['type'].rpartition(':')[2]} {str(resource['urn']).rpartition('::')[2]}"
