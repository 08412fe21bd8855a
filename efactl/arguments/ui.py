"""The arguments of `efactl ui`."""

import argparse

from efactl.arguments.types import add_stack_and_json
from efactl.command import Command


def _arguments(command: argparse.ArgumentParser) -> None:
    add_stack_and_json(command)
    command.add_argument("--no-browser", dest="browser", action="store_false", help="print the address and no more")
    command.add_argument("--port", type=int, default=0, metavar="N", help="port on loopback (default: a free one)")


COMMAND = Command(
    name="ui",
    summary="the Ray dashboard in your browser, token and tunnel handled, until Ctrl-C",
    example="efactl ui -s dev",
    arguments=_arguments,
    action="efactl.ui:ui",
)
