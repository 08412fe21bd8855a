"""The argument names of the installed pulumi_eks SDK, by wire name and all the way down."""

import functools
import typing
from collections.abc import Mapping
from typing import Any

import pulumi._types as pulumi_types
import pulumi_aws
import pulumi_eks

Names = dict[str, "Names | None"]


@functools.cache
def names(arguments: type) -> Names:
    """Wire names of an SDK's input class -> the names below each, None where anything goes; "*" is any key of a map."""
    annotations = arguments.__init__.__annotations__  # type: ignore[misc]
    wire = pulumi_types.input_type_py_to_pulumi_names(arguments)
    return {wire[name]: _below(annotation) for name, annotation in annotations.items() if name in wire}


def _below(annotation: Any) -> Names | None:
    if isinstance(annotation, str | typing.ForwardRef):
        found = _class(annotation if isinstance(annotation, str) else annotation.__forward_arg__)
        return names(found) if found else None
    inner = typing.get_args(annotation)
    if typing.get_origin(annotation) is Mapping:
        below = _below(inner[1])
        return None if below is None else {"*": below}
    return next(filter(None, map(_below, inner)), None)


def _class(name: str) -> type | None:
    """An input class by the name that an annotation has. Resources are none, nor is anything of aws.ec2, whose import
    takes a third of a second."""
    package, _, rest = name.rpartition(".")
    home = {"": pulumi_eks, "pulumi_aws.eks": pulumi_aws.eks}.get(package)
    found = getattr(home, rest, None)
    return found if isinstance(found, type) and pulumi_types.is_input_type(found) else None
