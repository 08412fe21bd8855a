"""The argument names of the installed pulumi_eks SDK, by wire name and all the way down."""

import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi._types as pulumi_types

Names = dict[str, "Names | None"]


@functools.cache
def names(arguments: type) -> Names:
    """Wire names of an SDK's input class -> the names below each, None where anything goes; "*" is any key of a map."""
    found = pulumi_types.input_type_types(arguments)
    return {wire: _below(found.get(wire)) for wire in pulumi_types.input_type_py_to_pulumi_names(arguments).values()}


def _below(annotation: Any) -> Names | None:
    for one in _alternatives(annotation):
        if isinstance(one, type) and pulumi_types.is_input_type(one):
            return names(one)
        if typing.get_origin(one) in (dict, Mapping):
            below = _below(typing.get_args(one)[1])
            return None if below is None else {"*": below}
    return None


def _alternatives(annotation: Any) -> list[Any]:
    """What a value of an optional, an input or a union may be."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return [one for argument in typing.get_args(annotation) for one in _alternatives(argument)]
    if origin is pulumi.Output:
        return _alternatives(typing.get_args(annotation)[0])
    return [annotation]
