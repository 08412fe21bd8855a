"""The arguments of `efactl status`."""

import argparse

from efactl.arguments.types import add_stack_and_json
from efactl.command import Command
from efactl.exit_codes import ExitCode


def _arguments(command: argparse.ArgumentParser) -> None:
    add_stack_and_json(command)
    command.add_argument("--watch", action="store_true", help="look again every 5 s until Ctrl-C; piped, one after one")


COMMAND = Command(
    name="status",
    summary="one screen: placement, nodes, pods, RayCluster, Ray, running job, last verdict, cost",
    example="efactl status -s dev --watch\nefactl status -s dev --json | jq .job.running.step",
    arguments=_arguments,
    action="efactl.arguments.status:status",
)


def status(asked: argparse.Namespace) -> ExitCode:
    from efactl.stack import Stack
    from efactl.status.show import show

    return show(Stack(asked.stack), as_json=asked.json, watch=asked.watch)
