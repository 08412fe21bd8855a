"""PURE: the text of a stack's file, changed at some settings and left as it was everywhere else, comments included."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from workload.errors import BadInputError

# What Pulumi keeps beside the settings for the encryption of one stack, and of no other.
ENCRYPTION = ("secretsprovider", "encryptedkey", "encryptionsalt")
_FIRST = "# Where this stack stands, and what that rests on (efactl capacity --write rewrites these lines):"
_MARK = "#> "


def settings_of(text: str) -> dict[str, Any]:
    """The `config` of a stack's file, with the namespaces of its keys. Raises BadInputError for any other file."""
    try:
        content = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise BadInputError(f"the stack's file is no YAML: {error}") from None
    config = content.get("config") if isinstance(content, Mapping) else None
    if not isinstance(config, dict):
        raise BadInputError("the stack's file has no settings under config:")
    return config


def with_setting(text: str, key: str, value: str | Sequence[str], *, after: Sequence[str] = ()) -> str:
    """`key` at `value`: where it stands, or below the first of `after` that is there, or at the end of the settings."""
    pairs = _pairs(text)
    if key in pairs:
        name, node = pairs[key]
        end = _end(text, node)
        # A comment behind the old value stays behind the new one.
        return f"{text[: name.end_mark.index]}: {_rendered(value)}{text[end:]}"
    below = next((pairs[one] for one in after if one in pairs), None) or list(pairs.values())[-1]
    end = text.find("\n", _end(text, below[1]))
    end = len(text) if end == -1 else end
    return f"{text[:end]}\n{' ' * below[0].start_mark.column}{key}: {_rendered(value)}{text[end:]}"


def without(text: str, keys: Sequence[str]) -> str:
    """Without these settings or top-level keys, each with its lines."""
    for key in keys:
        pairs = {**_top(text), **_pairs(text)}
        if key not in pairs:
            continue
        name, node = pairs[key]
        start = text.rfind("\n", 0, name.start_mark.index) + 1
        end = text.find("\n", _end(text, node))
        text = text[:start] + (text[end + 1 :] if end != -1 else "")
    return text


def secret_keys(text: str) -> list[str]:
    """The settings that are encrypted, wholly or in parts, in their order."""
    return [key for key, value in settings_of(text).items() if next(_secure(value), None) is not None]


def with_secrets(text: str, encrypted: Mapping[str, Any]) -> str:
    """Every encrypted value in `text` replaced by that at the same place of `encrypted`, settings by key.

    Raises BadInputError where a place is missing there: a value that another stack encrypted must not stay.
    """
    for key in secret_keys(text):
        old, new = list(_secure(settings_of(text)[key])), list(_secure(encrypted.get(key)))
        if len(old) != len(new):
            raise BadInputError(f"{key}: {len(old)} encrypted values, of which {len(new)} were encrypted anew")
        for before, after in zip(old, new, strict=True):
            text = text.replace(before, after)
    return text


def encryption_of(text: str) -> dict[str, str]:
    content = yaml.safe_load(text) or {}
    return {key: str(content[key]) for key in ENCRYPTION if key in content}


def with_encryption(text: str, given: Mapping[str, str]) -> str:
    kept = without(text, ENCRYPTION)
    lines = "".join(f"{key}: {value}\n" for key, value in given.items())
    return kept + ("" if kept.endswith("\n") or not lines else "\n") + lines


def with_header(text: str, lines: Sequence[str]) -> str:
    """These lines as comments at the very top, in the place of those of the last time."""
    kept = [line for line in text.splitlines(keepends=True) if not line.startswith((_FIRST, _MARK))]
    made = [_FIRST, *(f"{_MARK}{re.sub(r'[^ -~]', ' ', line)}" for line in lines)]
    return "".join([*(f"{line}\n" for line in made), *kept])


def _rendered(value: str | Sequence[str]) -> str:
    if not isinstance(value, str):
        return f"[{', '.join(map(_rendered, value))}]"
    # Pulumi takes a number or a date for what it is, and a setting is text.
    plain = re.fullmatch(r"[A-Za-z][\w./:-]*", value) and yaml.safe_load(value) == value
    return value if plain else json.dumps(value)


def _pairs(text: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    """Key and value of each setting."""
    _, config = _top(text)["config"]
    assert isinstance(config, yaml.MappingNode), "settings_of has seen it"
    if config.flow_style:
        raise BadInputError("the settings stand in one {...}: write config: with one setting a line")
    return {name.value: (name, node) for name, node in config.value}


def _top(text: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    settings_of(text)
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode), "settings_of has seen it"
    return {name.value: (name, node) for name, node in root.value}


def _end(text: str, node: yaml.Node) -> int:
    """Where a value's own text ends: a block's mark lies behind the comments that follow it, a text block's (| or >)
    at the beginning of the next line."""
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        return len(text[: node.end_mark.index].rstrip())
    block = isinstance(node, yaml.CollectionNode) and not node.flow_style
    if not block:
        return node.end_mark.index
    children = node.value[-1] if isinstance(node, yaml.MappingNode) else node.value[-1:]
    return max(_end(text, child) for child in children)


def _secure(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if set(value) == {"secure"} and isinstance(value["secure"], str):
            yield value["secure"]
            return
        for key in sorted(value):
            yield from _secure(value[key])
    elif isinstance(value, list):
        for one in value:
            yield from _secure(one)
