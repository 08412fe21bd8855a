"""The arguments of `efactl run`."""

import argparse

from efactl.arguments.types import add_stack_and_json
from efactl.command import Command

# The settings that one run may have of its own, by how their names begin.
ROOMS = ("train", "job", "gate")


def _arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "settings",
        nargs="*",
        metavar="KEY=VALUE",
        help=f"settings of this run alone: {', '.join(f'{room}*' for room in ROOMS)} of Pulumi.yaml",
    )
    add_stack_and_json(command)
    command.add_argument("--preview", action="store_true", help="show what would change, and change nothing")
    command.add_argument("--again", action="store_true", help="a run also where nothing has changed since the last one")
    command.add_argument("--keep", action="store_true", help="write the settings into Pulumi.STACK.yaml too")


COMMAND = Command(
    name="run",
    summary="a new run with other job settings; infrastructure is not touched",
    example="efactl run -s dev trainSteps=200 trainLr=2e-5\nefactl run -s dev --again",
    arguments=_arguments,
    action="efactl.run:run",
)
