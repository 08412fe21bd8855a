"""A command of efactl as the command line lists it; what it does is imported when it is called."""

import argparse
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
        self.arguments(commands.add_parser(self.name, **help_of(self.summary, self.example)))

    def do(self, asked: argparse.Namespace) -> ExitCode:
        module, _, function = self.action.partition(":")
        code: ExitCode = getattr(importlib.import_module(module), function)(asked)
        return code


def help_of(summary: str, example: str) -> dict[str, Any]:
    """What `add_parser` takes of a command, or of one below it."""
    examples = "\n".join(f"  {line}" for line in example.splitlines())
    return {
        "help": summary,
        "description": summary,
        "epilog": f"example:\n{examples}\n\nexit codes: `efactl --help`, docs/exit-codes.md",
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }
