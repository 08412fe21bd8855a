"""A command of efactl as the command line lists it; what it does is imported when it is called."""

import argparse
import importlib
from collections.abc import Callable
from dataclasses import dataclass

from efactl.exit_codes import ExitCode


@dataclass(frozen=True, kw_only=True)
class Command:
    """`example` is what one would type, a line each. `arguments` declares options and, where it likes, sub-commands.

    `action` is "module:function": the function takes what was asked (`argparse.Namespace`) and returns the exit code.
    """

    name: str
    summary: str
    example: str
    arguments: Callable[[argparse.ArgumentParser], None]
    action: str

    def add_to(self, commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
        examples = "\n".join(f"  {line}" for line in self.example.splitlines())
        command = commands.add_parser(
            self.name,
            help=self.summary,
            description=self.summary,
            epilog=f"example:\n{examples}\n\nexit codes: `efactl --help`, docs/exit-codes.md",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.arguments(command)

    def do(self, asked: argparse.Namespace) -> ExitCode:
        module, _, function = self.action.partition(":")
        code: ExitCode = getattr(importlib.import_module(module), function)(asked)
        return code
