"""What could stand at the end of a command line, told from the parser itself."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from efactl.arguments.run import ROOMS
from efactl.stack_names import FOLDER, known
from workload.job_spec import RUN_NAME


def words(parser: argparse.ArgumentParser, given: Sequence[str], folder: Path = FOLDER) -> list[str]:
    """`given` are the words after the program's name, the unfinished one last (empty at a new word)."""
    *before, unfinished = given or [""]
    option: argparse.Action | None = None
    position = 0
    only_positional = False
    for word in before:
        if option is not None:
            option = None
            continue
        if word == "--":
            only_positional = True
        elif word.startswith("-") and word != "-" and not only_positional:
            found = _options(parser).get(word)
            option = found if found is not None and _takes_value(found) else None
        elif (commands := _commands(parser)) is not None:
            if word not in commands.choices:
                return []
            parser, position = commands.choices[word], 0
        else:
            position += 1
    if option is not None:
        return _beginning(unfinished, _values(option, folder, unfinished))
    name, equals, value = unfinished.partition("=")
    if unfinished.startswith("--") and equals and not only_positional:
        named = _options(parser).get(name)
        values = [] if named is None else _values(named, folder, value)
        return [f"{name}={one}" for one in _beginning(value, values)]
    if unfinished.startswith("-") and not only_positional:
        return _beginning(unfinished, _options(parser))
    if (commands := _commands(parser)) is not None:
        return _beginning(unfinished, commands.choices)
    positional = _positional(parser, position)
    return [] if positional is None else _beginning(unfinished, _values(positional, folder, unfinished))


def _options(parser: argparse.ArgumentParser) -> Mapping[str, argparse.Action]:
    return {name: action for action in parser._actions for name in action.option_strings}


def _commands(parser: argparse.ArgumentParser) -> "argparse._SubParsersAction[argparse.ArgumentParser] | None":
    return next((action for action in parser._actions if isinstance(action, argparse._SubParsersAction)), None)


def _positional(parser: argparse.ArgumentParser, position: int) -> argparse.Action | None:
    """The one that a word at this position is for; the last of them where it takes several."""
    positionals = [action for action in parser._actions if not action.option_strings]
    if position < len(positionals):
        return positionals[position]
    return positionals[-1] if positionals and positionals[-1].nargs in ("*", "+") else None


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


def _beginning(text: str, candidates: Iterable[str]) -> list[str]:
    return sorted({candidate for candidate in candidates if candidate.startswith(text)})


def _values(action: argparse.Action, folder: Path, text: str) -> list[str]:
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    found = _BY_METAVAR.get(str(action.metavar)) or _BY_DEST.get(action.dest)
    return found(folder, text) if found else []


def _stacks(folder: Path, _text: str) -> list[str]:
    return known(folder)


def _runs(folder: Path, text: str) -> list[str]:
    """Ids of this project's runs that left a record, as `efactl runs list` shows them; whole where one is begun so."""
    ids = [path.parent.name for path in (folder / "runs").glob("*/record.json")]
    common = f"{RUN_NAME}-"
    return ids if text and common.startswith(text[: len(common)]) else [one.removeprefix(common) for one in ids]


def _settings(folder: Path, _text: str) -> list[str]:
    """Names of settings that `efactl run` takes. Read by indentation: no YAML parser need be there, or be fast."""
    try:
        lines = (folder / "Pulumi.yaml").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    names = [line.strip().removesuffix(":") for line in lines if line.startswith("  ") and line.rstrip().endswith(":")]
    return [f"{name}=" for name in names if name.startswith(ROOMS) and name != "jobSecretEnv"]


_BY_DEST: Mapping[str, Callable[[Path, str], list[str]]] = {
    "stack": _stacks,
    "run": _runs,
    "a": _runs,
    "b": _runs,
    "runs": _runs,
    "settings": _settings,
}
_BY_METAVAR: Mapping[str, Callable[[Path, str], list[str]]] = {"RUN": _runs, "STACK": _stacks}
