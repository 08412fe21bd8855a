"""The arguments of `efactl compare`."""

import argparse

from efactl.arguments.types import add_stack_and_json, count, ratio
from efactl.command import Command
from efactl.exit_codes import ExitCode


def _arguments(command: argparse.ArgumentParser) -> None:
    add_stack_and_json(command)
    command.add_argument("--repeats", type=count, metavar="N", help="runs of each arm, at least 3")
    command.add_argument("--steps", type=count, metavar="N", help="optimizer steps of a run, the first 3 not counted")
    command.add_argument(
        "--bandwidth",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure the bus bandwidth of all-reduces in each arm too",
    )
    command.add_argument(
        "--min-speedup", type=ratio, metavar="X", help="fail where the first arm is not X times as fast, noise counted"
    )


COMMAND = Command(
    name="compare",
    summary="run the stack's job over EFA and over TCP by turns, and say how much faster the one is",
    example="efactl compare -s dev --repeats 5 --min-speedup 1.5",
    arguments=_arguments,
    action="efactl.arguments.compare:compare",
)


def compare(asked: argparse.Namespace) -> ExitCode:
    from efactl.compare import compare as carry_out
    from efactl.stack import Stack

    return carry_out(
        Stack(asked.stack),
        repeats=asked.repeats,
        steps=asked.steps,
        bandwidth=asked.bandwidth,
        min_speedup=asked.min_speedup,
        as_json=asked.json,
    )
