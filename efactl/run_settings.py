"""PURE: the settings of one run, as `efactl run KEY=VALUE` takes them."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from efactl.arguments.run import ROOMS
from workload.errors import BadInputError

_ENCRYPTED = "jobSecretEnv"
_PARSED = {"array": list, "object": dict}
_SHOWN = {"array": "[one, two]", "object": "{NAME: text}"}
# By the beginning of a setting's name: why it is none of a single run.
_WHY = {
    "expect": "every run of the stack is judged by it",
    "preflight": "it measures the network beside the job",
    "compare": "it measures beside the job: `efactl compare` takes its own options",
    "storage": "it decides about storage, which the stack makes",
}


def run_settings(
    words: Sequence[str], declared: Mapping[str, Mapping[str, Any]], *, stack: str, project: str
) -> dict[str, Any]:
    """The settings by name, with values as a stack's file has them; `jobEnv.NAME` names one variable.

    `declared` is Pulumi.yaml's `config`. Raises BadInputError with every problem found.
    """
    found: dict[str, Any] = {}
    problems: list[str] = []
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip().removeprefix(f"{project}:")
        key, dot, member = name.partition(".")
        problem = _problem(key, member if dot else None, declared, stack) if equals else "is not KEY=VALUE"
        if not equals:
            name = word
        elif not problem and name in found:
            problem = "is given twice"
        elif not problem and dot:
            found[name] = text
        elif not problem:
            found[name], problem = _value(text, str(declared[key]["type"]))
        if problem:
            problems.append(f"{name}: {problem}")
    if problems:
        raise BadInputError("\n  ".join(["settings that no run can have:", *problems]))
    return found


def _problem(key: str, member: str | None, declared: Mapping[str, Mapping[str, Any]], stack: str) -> str:
    """Why a run cannot have this setting; empty where it can."""
    if key not in declared:
        close = difflib.get_close_matches(key, [name for name in declared if name.startswith(ROOMS)], n=1)
        return f"is not a setting: did you mean {close[0]}?" if close else "is not a setting: Pulumi.yaml lists them"
    if key == _ENCRYPTED:
        how = f"pulumi config set --secret --path '{_ENCRYPTED}.NAME' -s {stack}"
        return f"a secret on a command line is seen by others: `{how}`, then `efactl run -s {stack}`"
    if not key.startswith(ROOMS):
        why = next((why for beginning, why in _WHY.items() if key.startswith(beginning)), "it shapes the stack itself")
        return f"is no setting of a run ({why}); {', '.join(f'{room}*' for room in ROOMS)} are. " + (
            f"Change it in Pulumi.{stack}.yaml, then `efactl up -s {stack}`"
        )
    if member is not None and (declared[key]["type"] != "object" or not member):
        return f"names no value inside {key}"
    return ""


def _value(text: str, kind: str) -> tuple[Any, str]:
    """A value as the stack's file would have it, and what is wrong with it."""
    parsed = _PARSED.get(kind)
    if parsed is None:
        return text, ""
    try:
        # Texts alone: that is what packages and variables are, and `--keep` writes them so.
        value = yaml.load(text, Loader=yaml.BaseLoader) if text else parsed()  # noqa: S506
    except yaml.YAMLError:
        value = None
    if not isinstance(value, parsed):
        return None, f"'{text}' is not {'a list' if parsed is list else 'an object'} like {_SHOWN[kind]}"
    return value, ""


def applied(text: str, settings: Mapping[str, Any], *, project: str) -> str:
    """The text of a stack's file with these settings in place of its own.

    Everything else stays as it is written there: Pulumi reads `yes`, or a date, otherwise than PyYAML would write it.
    Raises BadInputError where the file holds no settings, or a variable is set inside something that holds none.
    """
    whole = yaml.compose(text, Loader=yaml.SafeLoader) or _node({})
    config = _member(whole, "config") or _node({})
    if not isinstance(whole, yaml.MappingNode) or not (isinstance(config, yaml.MappingNode) or _is_empty(config)):
        raise BadInputError("the stack's file is not `config:` with settings below")
    config = config if isinstance(config, yaml.MappingNode) else _node({})
    for name, value in settings.items():
        key, dot, member = name.partition(".")
        full, new = f"{project}:{key}", _node(value)
        if dot:
            inside = _member(config, full)
            if inside is not None and not isinstance(inside, yaml.MappingNode) and not _is_empty(inside):
                raise BadInputError(f"{name}: the stack's {key} is '{inside.value}', which holds no names")
            new = _with(inside if isinstance(inside, yaml.MappingNode) else _node({}), member, new)
        config = _with(config, full, new)
    return str(yaml.serialize(_with(whole, "config", config), allow_unicode=True))


def _node(value: Any) -> Any:
    return yaml.compose(yaml.safe_dump(value), Loader=yaml.SafeLoader)


def _member(mapping: Any, name: str) -> Any:
    found = mapping.value if isinstance(mapping, yaml.MappingNode) else []
    return next((value for key, value in found if key.value == name), None)


def _is_empty(node: Any) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


def _with(mapping: Any, name: str, value: Any) -> Any:
    """A mapping with that member; in the order that it has, a new one last."""
    members = [(key, value if key.value == name else old) for key, old in mapping.value]
    if _member(mapping, name) is None:
        members.append((_node(name), value))
    return yaml.MappingNode(mapping.tag, members, flow_style=mapping.flow_style)


def kept_by(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The settings as `pulumi config set --path` takes them, one value a path.

    A list or an object goes in member by member, once what was there before is gone: see `replaced_whole`.
    """
    return [pair for name, value in settings.items() for pair in _paths(name, value)]


def replaced_whole(settings: Mapping[str, Any]) -> list[str]:
    """Settings whose old value must go before `kept_by`'s paths are set, for its rest would stay."""
    return [name for name, value in settings.items() if isinstance(value, list | dict)]


def _paths(path: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, list):
        return [pair for index, item in enumerate(value) for pair in _paths(f"{path}[{index}]", item)]
    if isinstance(value, dict):
        return [pair for name, item in value.items() for pair in _paths(f'{path}["{name}"]', item)]
    return [(path, value if isinstance(value, str) else str(value))]
