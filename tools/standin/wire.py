"""Properties as the engine sends them (protobuf Structs) and as Python has them."""

from collections.abc import Mapping
from typing import Any

from google.protobuf import struct_pb2  # type: ignore[import-untyped]

# What the engine sends in a preview for a value that is not known yet (sdk/go/common/resource/plugin/rpc.go).
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def to_python(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Whole numbers become int: the wire knows only floats. Nulls are left out."""
    values = {key: _value(value) for key, value in struct.fields.items()}
    return {key: value for key, value in values.items() if value is not None}


def _value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return to_python(value.struct_value)
    if kind == "list_value":
        return [_value(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "string_value":
        return value.string_value
    return value.bool_value if kind == "bool_value" else None


def to_struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update({key: value for key, value in values.items() if value is not None})
    return struct


def has_unknown(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return bool(value == UNKNOWN)


def pick(values: Any, path: str) -> list[Any]:
    """What stands at `a.b[].c`, every element of each list; nothing where a part is missing or unknown."""
    found = [values]
    for part in path.split("."):
        name = part.removesuffix("[]")
        found = [item[name] for item in found if isinstance(item, Mapping) and item.get(name) is not None]
        if part.endswith("[]"):
            found = [element for item in found if isinstance(item, list) for element in item]
    return [item for item in found if item != UNKNOWN]
