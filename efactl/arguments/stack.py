"""The arguments of the commands that take a stack and nothing else: outputs and stop."""

import argparse
import importlib

from efactl.arguments.types import add_stack_and_json
from efactl.command import Command
from efactl.exit_codes import ExitCode

_ACTION = "efactl.arguments.stack:on_stack"
COMMANDS = (
    Command(
        name="outputs",
        summary="the main figures of the stack's last run",
        example="efactl outputs -s local --json",
        arguments=add_stack_and_json,
        action=_ACTION,
    ),
    Command(
        name="stop",
        summary="stop the stack's running job; the cluster stays",
        example="efactl stop -s dev",
        arguments=add_stack_and_json,
        action=_ACTION,
    ),
)


def on_stack(asked: argparse.Namespace) -> ExitCode:
    from efactl.stack import Stack

    action = getattr(importlib.import_module("efactl.commands"), asked.command)
    code: ExitCode = action(Stack(asked.stack), as_json=asked.json)
    return code
