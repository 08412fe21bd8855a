"""The arguments of `efactl completion`."""

import argparse

from efactl.command import Command

SHELLS = ("bash", "zsh", "fish")


def _arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("shell", choices=SHELLS, help="the shell to print it for")


COMMAND = Command(
    name="completion",
    summary="print a script that completes efactl's commands, options, stacks and runs in a shell",
    example='eval "$(efactl completion bash)"   # in ~/.bashrc\nefactl completion fish | source',
    arguments=_arguments,
    action="efactl.completion:completion",
)
