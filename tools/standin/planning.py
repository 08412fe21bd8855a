"""PURE: what the provider knows before it asks AWS: names it makes, outputs in a preview, what a change means."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tools.standin.kinds import Kind
from tools.standin.schema import Shape
from tools.standin.wire import UNKNOWN

# Names that the provider made itself, as pulumi-terraform-bridge keeps them in the inputs.
DEFAULTS = "__defaults"
# A change of these alone makes no new version of a launch template.
_QUIET = {"tags", "tagsAll", "defaultVersion", "updateDefaultVersion"}
# Lists whose order means something; every other list of plain values is a set to AWS.
_ORDERED = {"instanceTypes"}
_SETS_OF_OBJECTS = {"taints", "ingress", "egress", "filters"}


def prefix_of(kind: Kind) -> str:
    """The input that gives a name's beginning: namePrefix, bucketPrefix, nodeGroupNamePrefix."""
    return f"{kind.named}Prefix"


def with_names(
    kind: Kind, inputs: Mapping[str, Any], olds: Mapping[str, Any], name: str, seed: bytes
) -> dict[str, Any]:
    """The inputs with the name that the provider makes where none is given; the old one as long as there is one."""
    checked = {key: _json_text(key, value) for key, value in inputs.items()}
    if not kind.named or kind.named in inputs or prefix_of(kind) in inputs:
        return {**checked, DEFAULTS: []}
    if kind.named in olds.get(DEFAULTS, []):
        made = olds[kind.named]
    else:
        made = f"{name}-{hashlib.sha256(seed or name.encode()).hexdigest()[:7]}"
        made = made.lower() if kind.named == "bucket" else made
    return {**checked, kind.named: made, DEFAULTS: [kind.named]}


def _json_text(key: str, value: Any) -> Any:
    """Policies may be given as objects; the provider sends text."""
    return json.dumps(value) if key in ("policy", "assumeRolePolicy") and isinstance(value, Mapping) else value


def tags_all(shape: Shape, inputs: Mapping[str, Any], default_tags: Mapping[str, str]) -> dict[str, Any]:
    """{tagsAll: ...} where the type has it, the resource's own tags over the provider's."""
    if "tagsAll" not in shape.outputs:
        return {}
    tags = inputs.get("tags", {})
    return {"tagsAll": UNKNOWN if tags == UNKNOWN else {**default_tags, **tags}}


def plain(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in inputs.items() if key != DEFAULTS}


def previewed(kind: Kind, shape: Shape, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A creation's outputs in a preview: what AWS decides is unknown, what the provider or the program says is not."""
    decided = (shape.outputs - set(shape.types) - {"tagsAll", "region"}) | set(kind.computed)
    outputs = dict.fromkeys(decided, UNKNOWN) | dict(kind.defaults) | plain(inputs)
    for name, parts in kind.within.items():
        if isinstance(outputs.get(name), Mapping):
            outputs[name] = {**dict.fromkeys(parts, UNKNOWN), **outputs[name]}
    return outputs


def preview_update(
    kind: Kind, old: Mapping[str, Any], old_inputs: Mapping[str, Any], inputs: Mapping[str, Any]
) -> dict[str, Any]:
    outputs = {**kept(kind, old, old_inputs, inputs), **plain(inputs)}
    for name in kind.within:
        if isinstance(inputs.get(name), Mapping) and isinstance(old.get(name), Mapping):
            outputs[name] = {**old[name], **inputs[name]}
    changed = {top(path) for path in changes(old_inputs, inputs, ())}
    if changed - _QUIET:
        outputs.update(dict.fromkeys(kind.changing, UNKNOWN))
    return outputs


def kept(
    kind: Kind, old: Mapping[str, Any], old_inputs: Mapping[str, Any], inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """The old outputs that an update leaves: an input that is no longer given goes back to its default, if any."""
    gone = {name for name in old_inputs if name not in inputs and name not in kind.computed}
    return {**{name: value for name, value in old.items() if name not in gone}, **{
        name: value for name, value in kind.defaults.items() if name in gone
    }}  # fmt: skip


def changes(old: Mapping[str, Any], new: Mapping[str, Any], fixed: tuple[str, ...]) -> dict[str, tuple[str, bool]]:
    """By path: `add`, `delete` or `update`, and whether that replaces the resource."""
    found: dict[str, str] = {}
    _compare(plain(old), plain(new), "", found)
    return {path: (what, _replaces(path, fixed)) for path, what in sorted(found.items())}


def changes_of(
    kind: Kind, olds: Mapping[str, Any], old_inputs: Mapping[str, Any], news: Mapping[str, Any]
) -> dict[str, tuple[str, bool]]:
    """What the provider has to do of `news`: the bridge compares with the outputs, `olds`.

    Of `old_inputs`, which the engine keeps as they were where an update failed, it sees what is no longer given.
    """
    found: dict[str, str] = {}
    known = {name: _part(olds[name], value) for name, value in plain(news).items() if name in olds}
    _compare(known, {name: value for name, value in plain(news).items() if name in olds}, "", found)
    before: dict[str, str] = {}
    _compare(plain(old_inputs), plain(news), "", before)
    found |= {path: what for path, what in before.items() if what == "delete" or top(path) not in olds}
    fixed = (*kind.fixed, "region")
    return {
        path: (what, _replaces(path, fixed) or (what == "delete" and path in kind.lasting))
        for path, what in sorted(found.items())
    }


def _part(old: Any, new: Any) -> Any:
    """An output without what AWS adds to an input."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {key: _part(old[key], value) for key, value in new.items() if key in old}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [_part(before, after) for before, after in zip(old, new, strict=True)]
    return old


def _compare(old: Any, new: Any, path: str, found: dict[str, str]) -> None:
    name = path.rpartition(".")[2].partition("[")[0]
    if _same(old, new, name):
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            inner = f"{path}.{key}" if path else key
            if key not in new:
                found[inner] = "delete"
            elif key not in old:
                found[inner] = "add"
            else:
                _compare(old[key], new[key], inner, found)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and name not in _SETS_OF_OBJECTS:
        for at, (before, after) in enumerate(zip(old, new, strict=True)):
            _compare(before, after, f"{path}[{at}]", found)
    else:
        found[path] = "update"


def _same(old: Any, new: Any, name: str) -> bool:
    if old == new:
        return True
    if isinstance(old, list) and isinstance(new, list) and name not in _ORDERED:
        scalars = not any(isinstance(item, (dict, list)) for item in old + new)
        return (scalars or name in _SETS_OF_OBJECTS) and sorted(map(repr, old)) == sorted(map(repr, new))
    if isinstance(old, str) and isinstance(new, str) and old[:1] + new[:1] == "{{":
        return _json(old) is not None and bool(_json(old) == _json(new))
    return False


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _replaces(path: str, fixed: tuple[str, ...]) -> bool:
    plain_path = "".join(part.partition("]")[2] if "]" in part else part for part in path.split("["))
    dotted = f"{plain_path}."
    return any(dotted.startswith(f"{item}.") or f"{item}.".startswith(dotted) for item in fixed)


def deletes_first(kind: Kind, inputs: Mapping[str, Any]) -> bool:
    """As the bridge has it: a name that the program gave cannot be had twice at a time."""
    return bool(kind.named) and kind.named in inputs and kind.named not in inputs.get(DEFAULTS, [kind.named])


def top(path: str) -> str:
    """The property that a path begins with."""
    return path.partition(".")[0].partition("[")[0]
