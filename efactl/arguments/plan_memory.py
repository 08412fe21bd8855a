"""The arguments of `efactl plan-memory`."""

import argparse

from efactl.arguments.types import add_stack_and_json
from efactl.command import Command
from efactl.exit_codes import ExitCode


def _arguments(command: argparse.ArgumentParser) -> None:
    add_stack_and_json(command)
    command.add_argument("--gpu", metavar="NAME", help="plan for this GPU (L4, H100, ...) instead of the stack's own")


COMMAND = Command(
    name="plan-memory",
    summary="whether the stack's job fits its GPUs' memory, and the largest batch that does; nothing is started",
    example="efactl plan-memory -s dev --gpu L40S",
    arguments=_arguments,
    action="efactl.arguments.plan_memory:plan_memory",
)


def plan_memory(asked: argparse.Namespace) -> ExitCode:
    from efactl.plan_memory import plan
    from efactl.stack import Stack

    return plan(Stack(asked.stack), gpu=asked.gpu, as_json=asked.json)
