"""What the installed pulumi_aws says of each resource type: names on the wire, types, what is required."""

import functools
import importlib
import importlib.resources
import inspect
import json
import sys
import threading
import types
import typing
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi import Output
from pulumi import _types as sdk

from tools.standin.wire import UNKNOWN

PROVIDER = "pulumi:providers:aws"
# The SDK's lazy modules are seen half made by a second thread.
IMPORTS = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A resource type or an object within one. `outputs` is empty for objects."""

    types: Mapping[str, Any]
    required: frozenset[str]
    outputs: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is wrong at `path` (`networkInterfaces[0].deviceIndex`)."""

    path: str
    reason: str


@functools.cache
def _classes() -> dict[str, tuple[str, str]]:
    """Module and class by type token, from the package's own registration."""
    text = (importlib.resources.files("pulumi_aws") / "__init__.py").read_text()
    start = text.index('resource_modules="""') + len('resource_modules="""')
    modules = json.loads(text[start : text.index('"""', start)])
    return {token: (module["fqn"], name) for module in modules for token, name in module["classes"].items()}


@functools.cache
def resource(token: str) -> Shape | None:
    """The shape of a type, None for a token that the SDK does not have."""
    with IMPORTS:
        return _resource(token)


def _resource(token: str) -> Shape | None:
    if token == PROVIDER:
        fqn, name = "pulumi_aws", "Provider"
    elif token in _classes():
        fqn, name = _classes()[token]
    else:
        return None
    cls = getattr(importlib.import_module(fqn), name)
    module = sys.modules[cls.__module__]
    # <Class>Args, or <Class>InitArgs where an object of another resource has that name (s3.BucketVersioning).
    arguments = getattr(module, next(exported for exported in module.__all__ if exported.endswith("Args")))
    return Shape(**_inputs(arguments), outputs=frozenset(sdk.resource_types(cls)))


@functools.cache
def _inputs(cls: type) -> dict[str, Any]:
    names = sdk.input_type_py_to_pulumi_names(cls)
    parameters = inspect.signature(cls).parameters.values()
    required = frozenset(names[item.name] for item in parameters if item.default is inspect.Parameter.empty)
    return {"types": sdk.input_type_types(cls), "required": required}


def problems(token: str, inputs: Mapping[str, Any]) -> list[Problem]:
    """Everything in the inputs that the SDK's type does not allow. Unknown values pass."""
    shape = resource(token)
    if shape is None:
        return [Problem(path="", reason=f"pulumi_aws has no resource type {token}")]
    return _in_object(inputs, shape, "")


def _in_object(values: Mapping[str, Any], shape: Shape, path: str) -> list[Problem]:
    found = []
    dot = f"{path}." if path else ""
    for name, value in values.items():
        if name == "__defaults":
            continue
        if name in shape.types:
            found += _in_value(value, shape.types[name], f"{dot}{name}")
        else:
            found.append(Problem(path=f"{dot}{name}", reason=f"is not a property; there are {_listed(shape.types)}"))
    missing = sorted(shape.required - set(values))
    return found + [Problem(path=f"{dot}{name}", reason="is required and missing") for name in missing]


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(sorted(names))


def _in_value(value: Any, expected: Any, path: str) -> list[Problem]:
    if value is None or value == UNKNOWN:
        return []
    attempts = [_against(value, member, path) for member in _members(expected)]
    if not attempts or [] in attempts:
        return []
    # The attempt that came furthest says most: an object's wrong name before "is no text".
    return max(attempts, key=lambda problems: max(len(problem.path) for problem in problems))


def _members(expected: Any) -> list[Any]:
    """The plain types that an annotation stands for: Input, Output, Optional and the dictionary forms left out."""
    origin = typing.get_origin(expected)
    if origin in (typing.Union, types.UnionType):
        return [plain for member in typing.get_args(expected) for plain in _members(member)]
    if origin in (Awaitable, Output) or expected is type(None) or typing.is_typeddict(expected):
        return []
    return [expected]


def _against(value: Any, expected: Any, path: str) -> list[Problem]:
    origin = typing.get_origin(expected)
    if origin in (Sequence, list):
        if not isinstance(value, list):
            return [Problem(path=path, reason=f"must be a list, not {value!r}")]
        element = typing.get_args(expected)[0]
        return [item for at, part in enumerate(value) for item in _in_value(part, element, f"{path}[{at}]")]
    if origin in (Mapping, dict):
        if not isinstance(value, Mapping):
            return [Problem(path=path, reason=f"must be a map, not {value!r}")]
        element = typing.get_args(expected)[1]
        return [item for key, part in value.items() for item in _in_value(part, element, f"{path}.{key}")]
    if isinstance(expected, type) and sdk.is_input_type(expected):
        if not isinstance(value, Mapping):
            return [Problem(path=path, reason=f"must be an object, not {value!r}")]
        return _in_object(value, Shape(**_inputs(expected)), path)
    return (
        [] if _is_scalar(value, expected) else [Problem(path=path, reason=f"must be {_said(expected)}, not {value!r}")]
    )


def _is_scalar(value: Any, expected: Any) -> bool:
    if expected is bool:
        return isinstance(value, bool)
    if expected in (int, float):
        return isinstance(value, (int, expected)) and not isinstance(value, bool)
    if isinstance(expected, type) and issubclass(expected, str):
        return isinstance(value, str)
    return True


def _said(expected: Any) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number"}.get(expected, "text")
