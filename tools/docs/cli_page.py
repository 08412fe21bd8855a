"""docs/reference/efactl.md from the parser that reads the command line."""

import argparse
from collections.abc import Iterator

from efactl.__main__ import parser

INTRODUCTION = """# efactl

<!-- written by `make docs` from efactl's own parser, not by hand -->

`efactl COMMAND --help` says the same. Facts go to standard output, with `--json` as one JSON document; what is going on
is told on standard error. Exit codes: [exit-codes.md](../exit-codes.md).
"""


def page() -> str:
    """The page's Markdown."""
    parts = [INTRODUCTION]
    parts += [_command(name, command) for name, command in _commands(parser(), "efactl")]
    return "\n".join(parts)


def _commands(of: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Those that do something, with their whole names: `efactl runs list`."""
    below = [action for action in of._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield name, of
    for action in below:
        for command, inner in action.choices.items():
            yield from _commands(inner, f"{name} {command}")


def _command(name: str, of: argparse.ArgumentParser) -> str:
    text = f"## `{name}`\n\n{_sentence(of.description or '')}\n"
    rows = "".join(_row(action) for action in of._actions if not _hidden(action))
    if rows:
        text += f"\n| argument | what it is |\n|---|---|\n{rows}"
    if of.epilog:
        text += f"\n```\n{of.epilog.strip()}\n```\n"
    return text


def _row(action: argparse.Action) -> str:
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    if isinstance(value, tuple):
        value = " ".join(value)
    if not action.option_strings:
        names = [{"*": f"[{value} ...]", "+": f"{value} ...", "?": f"[{value}]"}.get(str(action.nargs), value)]
    elif action.nargs == 0:
        names = list(action.option_strings)
    else:
        names = [f"{option} {value}" for option in action.option_strings]
    said = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return f"| {', '.join(f'`{_cell(name)}`' for name in names)} | {_cell(said)} |\n"


def _hidden(action: argparse.Action) -> bool:
    return action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction | argparse._SubParsersAction)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")
